import type { TlsMaterial } from './tls.js';

/** What all TLS listeners of a server prove themselves with at present. */
export class TlsIdentity {
  readonly #listeners = new Set<(material: TlsMaterial) => void>();
  #material: TlsMaterial;

  constructor(material: TlsMaterial) {
    this.#material = material;
  }

  get material(): TlsMaterial {
    return this.#material;
  }

  /** Told at once and after every renewal. @returns ends that */
  watch(listener: (material: TlsMaterial) => void): () => void {
    this.#listeners.add(listener);
    listener(this.#material);
    return () => this.#listeners.delete(listener);
  }

  /** Connections from now on get the new certificate; open ones keep theirs. @returns whether it is another one */
  renew(material: TlsMaterial): boolean {
    if (material.certificate === this.#material.certificate && material.key === this.#material.key) return false;
    this.#material = material;
    for (const listener of this.#listeners) listener(material);
    return true;
  }
}
