import { runSuite } from '../helpers/run-suite.mjs';

await runSuite('fuzz');
