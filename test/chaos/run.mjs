import { runSuite } from '../helpers/run-suite.mjs';

await runSuite('chaos');
