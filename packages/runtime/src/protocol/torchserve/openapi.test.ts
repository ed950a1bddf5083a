import { expect, it } from 'vitest';
import { apiDocument, modelDocument } from './openapi.js';
import { managementDocument } from './openapi-management.js';

type Document = { paths: Record<string, Record<string, { parameters: Array<{ name: string; in: string }> }>> };
const pathsOf = (document: object) => Object.keys((document as Document).paths);

it('describes what a listener serves and nothing else', () => {
  expect(pathsOf(apiDocument(['metrics']))).toEqual(['/metrics']);
  expect(pathsOf(apiDocument(['inference']))).toContain('/predictions/{model_name}/{model_version}');
  expect(pathsOf(apiDocument(['inference']))).not.toContain('/models');
  expect(pathsOf(apiDocument(['management']))).toEqual([
    '/',
    '/models',
    '/models/{model_name}',
    '/models/{model_name}/{model_version}',
    '/models/{model_name}/{model_version}/set-default',
    '/logging',
    '/token',
    '/workflows',
    '/workflows/{workflow_name}',
    '/api-description',
    '/metrics',
  ]);
});

it('declares every placeholder of a path as a parameter', () => {
  for (const document of [apiDocument(['inference', 'management', 'metrics']), managementDocument('kit')]) {
    for (const [path, operations] of Object.entries((document as Document).paths)) {
      const placeholders = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
      for (const { parameters } of Object.values(operations)) {
        expect(parameters.filter((parameter) => parameter.in === 'path').map((parameter) => parameter.name)).toEqual(
          placeholders,
        );
      }
    }
  }
});

it('says of every answer what it means', () => {
  type Answers = { paths: Record<string, Record<string, { responses: Record<string, { description?: string }> }>> };
  const { paths } = JSON.parse(JSON.stringify(apiDocument(['inference', 'management', 'metrics']))) as Answers;
  for (const [path, operations] of Object.entries(paths)) {
    for (const { responses } of Object.values(operations)) {
      expect(Object.keys(responses), path).toContain('200');
      for (const { description } of Object.values(responses)) expect(description, path).toMatch(/\w/);
    }
  }
});

it('names the model in its own document', () => {
  expect(modelDocument('kit')).toMatchObject({
    info: { title: 'RESTful API for: kit' },
    paths: { '/prediction/kit': { post: { operationId: 'kit' } } },
  });
});
