import descriptor, { type IDescriptorProto, type IFileDescriptorProto } from 'protobufjs/ext/descriptor/index.js';
import { describe, expect, it } from 'vitest';
import { definitions, serviceNames } from './definitions.js';
import { reflectable } from './descriptors.js';

const [any] = Object.values(reflectable(definitions()));
const files = ((any?.fileDescriptorProtos ?? []) as Buffer[]).map(
  (bytes) => descriptor.FileDescriptorProto.toObject(descriptor.FileDescriptorProto.decode(bytes)) as IFileDescriptorProto,
);
const byName = new Map(files.map((file) => [file.name ?? '', file]));

/** Messages of a file with their full names. */
function* messages(prefix: string, list: readonly IDescriptorProto[] = []): Generator<[string, IDescriptorProto]> {
  for (const message of list) {
    const name = `${prefix}.${message.name ?? ''}`;
    yield [name, message];
    yield* messages(name, message.nestedType);
  }
}
const types = new Map<string, { file: string; message?: IDescriptorProto }>();
for (const file of files) {
  for (const [name, message] of messages(`.${file.package ?? ''}`, file.messageType)) {
    types.set(name, { file: file.name ?? '', message });
    for (const it of message.enumType ?? []) types.set(`${name}.${it.name ?? ''}`, { file: file.name ?? '' });
  }
}
const message = (name: string) => types.get(name)?.message;

describe('descriptors', () => {
  it('hold every service', () => {
    const services = files.flatMap((file) => (file.service ?? []).map(({ name }) => `${file.package ?? ''}.${name ?? ''}`));
    expect(services.sort()).toEqual(Object.values(serviceNames).sort());
  });

  it('name every type in full, and import the file that has it', () => {
    const used = files.flatMap((file) => [
      ...[...messages(`.${file.package ?? ''}`, file.messageType)].flatMap(([, { field }]) =>
        (field ?? []).flatMap(({ typeName }) => (typeName === undefined || typeName === '' ? [] : [[file, typeName] as const])),
      ),
      ...(file.service ?? []).flatMap(({ method }) =>
        (method ?? []).flatMap(({ inputType, outputType }) => [
          [file, inputType ?? ''] as const,
          [file, outputType ?? ''] as const,
        ]),
      ),
    ]);
    expect(used.length).toBeGreaterThan(50);
    for (const [file, type] of used) {
      const owner = types.get(type)?.file;
      expect(owner, `${type} of ${file.name ?? ''}`).toBeDefined();
      if (owner !== file.name) expect(file.dependency).toContain(owner);
    }
    for (const { dependency } of files) for (const name of dependency ?? []) expect(byName.has(name)).toBe(true);
  });

  it('call the entries of maps as the format wants them, and mark what is optional', () => {
    const request = message('.org.pytorch.serve.grpc.inference.PredictionsRequest');
    expect(request?.nestedType?.map(({ name, options }) => [name, options?.mapEntry])).toEqual([['InputEntry', true]]);
    const field = (name: string) => request?.field?.find((it) => it.name === name) as Record<string, unknown> | undefined;
    expect(field('input')?.['typeName']).toBe('.org.pytorch.serve.grpc.inference.PredictionsRequest.InputEntry');
    expect(field('sequence_id')).toMatchObject({ proto3Optional: true, oneofIndex: 0 });
    // A choice among several is none of these.
    const parameter = message('.org.pytorch.serve.grpc.openinference.InferParameter');
    expect(parameter?.field?.every((it) => !('proto3Optional' in it))).toBe(true);
  });
});
