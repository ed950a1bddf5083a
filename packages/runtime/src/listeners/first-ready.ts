import { modelChanged, workerChanged } from '../domain/events.js';

/** Calls back once, as soon as `ready` says so after a change of a model or worker. @returns a function that gives up waiting */
export function onFirstReady(ready: () => boolean, then: () => void): () => void {
  let done = false;
  const look = () => {
    if (done || !ready()) return;
    stop();
    then();
  };
  const ends = [modelChanged.subscribe(look), workerChanged.subscribe(look)];
  const stop = () => {
    done = true;
    for (const end of ends) end();
  };
  look();
  return stop;
}
