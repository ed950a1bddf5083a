export interface ChangedDefault {
  readonly key: string;
  /** As it would be written in the file. */
  readonly torchserve: string;
  readonly here: string;
  readonly why: string;
  /** Line of config.properties that gives TorchServe's behaviour. */
  readonly restore: string;
}

/** Keys whose default is another than TorchServe's; docs/configuration.md has the same table. */
export const changedDefaults: readonly ChangedDefault[] = [
  {
    key: 'allowed_urls',
    torchserve: 'file://.*|http(s)?://.*',
    here: 'empty',
    why: 'Models are registered from the model store only: handlers are code, and nobody on the network may bring it unasked.',
    restore: 'allowed_urls=file://.*|http(s)?://.*',
  },
  {
    key: 'metrics_mode',
    torchserve: 'log',
    here: 'prometheus',
    why: '/metrics answers without a setting.',
    restore: 'metrics_mode=log',
  },
  {
    key: 'model_metrics_auto_detect',
    torchserve: 'false',
    here: 'true',
    why: 'Metrics that handlers emit are on /metrics, within max_handler_metrics and max_handler_metric_series.',
    restore: 'model_metrics_auto_detect=false',
  },
];
