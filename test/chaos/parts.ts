import type { Part } from './part.js';
import { clients } from './parts/clients.js';
import { descriptors } from './parts/descriptors.js';
import { disk } from './parts/disk.js';
import { drain } from './parts/drain.js';
import { front } from './parts/front.js';
import { hangs } from './parts/hangs.js';
import { kills } from './parts/kills.js';
import { poison } from './parts/poison.js';
import { races } from './parts/races.js';
import { soak } from './parts/soak.js';

/** In the order in which they run. */
export const parts: readonly Part[] = [kills, hangs, poison, clients, descriptors, disk, races, front, drain, soak];
