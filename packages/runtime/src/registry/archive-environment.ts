import type { ArchiveLimits } from './archive-sink.js';

/** Where archives come from and how much of them is taken. */
export interface ArchiveEnvironment {
  readonly modelStore: string | undefined;
  readonly tempDirectory: string;
  /** Regular expressions; a url must match one in full, in any case. */
  readonly allowedUrls: readonly string[];
  readonly limits: ArchiveLimits & {
    /** Milliseconds for a whole download; default ten minutes. */
    readonly downloadTimeout?: number;
  };
  /** Loopback and private addresses may be fetched from; else only hosts that an entry of `allowedUrls` names. Default false. */
  readonly allowPrivate?: boolean;
  /** Versions of the packages that the server brings to handlers; default those installed beside it. */
  readonly provides?: Readonly<Record<string, string>>;
}

export interface ArchiveInput {
  /** A name inside the model store, or a `file://`, `http://` or `https://` url that is allowed. */
  readonly url: string;
  readonly modelName?: string;
  readonly handler?: string;
  readonly runtime?: string;
  /** When neither the archive nor the call names a handler (`default_service_handler`). */
  readonly defaultHandler?: string;
  /** Which version of a `NAME/VERSION` folder; default the highest. */
  readonly version?: string;
  /** The operator names it, not a client: any path of this machine will do. */
  readonly trusted?: boolean;
}
