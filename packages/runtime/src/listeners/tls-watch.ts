import { type StatsListener, unwatchFile, watchFile } from 'node:fs';
import type { TlsConfig } from '../config/server-config.js';
import { readTls, tlsFiles } from './tls.js';
import type { TlsIdentity } from './tls-identity.js';

/** How often the files are looked at. */
const LOOK_MS = 5_000;

/** Reads key and certificate again when their files change, as when a renewed certificate is put in their place. */
export class TlsWatch {
  readonly #files: readonly string[];
  readonly #look: StatsListener;
  #reading: Promise<void> = Promise.resolve();

  constructor(config: TlsConfig, identity: TlsIdentity, log: { info(message: string): void; warn(message: string): void }) {
    this.#files = tlsFiles(config);
    this.#look = () => {
      this.#reading = this.#reading.then(async () => {
        try {
          if (identity.renew(await readTls(config))) log.info(`a new certificate was read from ${this.#files.join(' and ')}`);
        } catch (error) {
          // Key and certificate are seldom replaced at the same moment; the second one brings the next look.
          log.warn(`the certificate that was in use stays: ${(error as Error).message}`);
        }
      });
    };
    for (const file of this.#files) watchFile(file, { interval: LOOK_MS, persistent: false }, this.#look);
  }

  close(): void {
    for (const file of this.#files) unwatchFile(file, this.#look);
  }
}
