/** What becomes of a model that cannot be loaded: tried again for a while, given up at once, or the end of the server. */
export const loadFailurePolicies = ['retry', 'give-up', 'exit'] as const;
export type LoadFailurePolicy = (typeof loadFailurePolicies)[number];
