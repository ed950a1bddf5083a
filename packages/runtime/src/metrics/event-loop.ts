import type { Distribution } from './family.js';

const PERIOD_MS = 10;

/**
 * Samples how late the front's timers fire, into a histogram that can be aggregated over replicas.
 * `monitorEventLoopDelay` gives quantiles of its own, which cannot.
 */
export function watchEventLoop(delays: Distribution, now: () => number = () => performance.now()): () => void {
  let due = now() + PERIOD_MS;
  const timer = setInterval(() => {
    const at = now();
    delays.observe(Math.max(0, at - due) / 1000);
    due = at + PERIOD_MS;
  }, PERIOD_MS);
  timer.unref();
  return () => clearInterval(timer);
}
