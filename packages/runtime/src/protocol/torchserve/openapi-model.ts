export function modelDocument(model: string): object {
  return { openapi: '3.0.1', info: { title: `RESTful API for: ${model}`, version: '1.0.0' }, paths: {} };
}
export function managementDocument(model: string): object {
  return { openapi: '3.0.1', info: { title: `RESTful Management API for: ${model}`, version: '0.12.0' }, paths: {} };
}
