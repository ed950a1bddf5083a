/** The metrics room as the listener sees it. */
export interface MetricsEndpoint {
  /**
   * @param accept the request's Accept header
   * @param names families wanted; undefined for all
   * @returns undefined when there is nothing to scrape (the metrics API is off)
   */
  scrape(
    accept: string | undefined,
    names: readonly string[] | undefined,
  ): Promise<{ readonly contentType: string; readonly body: string } | undefined>;
}
