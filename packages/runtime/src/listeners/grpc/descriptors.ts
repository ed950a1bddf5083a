import type { MessageTypeDefinition, PackageDefinition } from '@grpc/proto-loader';
import descriptor, {
  type IDescriptorProto,
  type IEnumDescriptorProto,
  type IFieldDescriptorProto,
  type IFileDescriptorProto,
} from 'protobufjs/ext/descriptor/index.js';

/**
 * Descriptors of all definitions that clients can build on, in the form that the reflection library takes. The loader's own lack the imports, the marks of
 * optional fields, the names that map entries must have, and full names: no client but the most lenient takes them.
 */
export function reflectable(definitions: PackageDefinition): PackageDefinition {
  const messages = Object.values(definitions).filter((definition) => Array.isArray(definition.fileDescriptorProtos));
  const [first] = messages as MessageTypeDefinition<object, object>[];
  if (first === undefined) return {};
  // Each message names every file it may need, mostly the same ones.
  const encoded = new Set((messages as MessageTypeDefinition<object, object>[]).flatMap((it) => it.fileDescriptorProtos));
  const files = new Map<string, IFileDescriptorProto>();
  for (const bytes of encoded) {
    const file = descriptor.FileDescriptorProto.decode(bytes) as IFileDescriptorProto;
    files.set(nameOf(file), file);
  }
  const owners = new Map<string, string>();
  for (const file of files.values()) {
    for (const message of file.messageType ?? []) nameEntries(message);
    index(file.package ?? '', file, (type) => owners.set(type, nameOf(file)));
  }
  for (const file of files.values()) complete(file, owners);
  const { FileDescriptorProto } = descriptor;
  const fileDescriptorProtos = [...files.values()].map((file) =>
    Buffer.from(FileDescriptorProto.encode(FileDescriptorProto.create(file)).finish()),
  );
  return { all: { ...first, fileDescriptorProtos } };
}

const nameOf = (file: IFileDescriptorProto): string => file.name ?? '';

interface Scope {
  readonly messageType?: IDescriptorProto[];
  readonly nestedType?: IDescriptorProto[];
  readonly enumType?: IEnumDescriptorProto[];
}

/** Calls with the full name of every message and enum. */
function index(prefix: string, scope: Scope, found: (type: string) => void): void {
  for (const { name } of scope.enumType ?? []) found(`${prefix}.${name ?? ''}`);
  for (const message of scope.messageType ?? scope.nestedType ?? []) {
    const type = `${prefix}.${message.name ?? ''}`;
    found(type);
    index(type, { nestedType: message.nestedType, enumType: message.enumType }, found);
  }
}

/** The entry of the map `some_field` must be called `SomeFieldEntry`. */
function nameEntries(message: IDescriptorProto): void {
  for (const nested of message.nestedType ?? []) {
    nameEntries(nested);
    if (nested.options?.mapEntry !== true) continue;
    const field = (message.field ?? []).find(({ typeName }) => typeName === nested.name);
    if (field === undefined) continue;
    nested.name = `${(field.name ?? '').replaceAll(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase())}Entry`;
    field.typeName = nested.name;
  }
}

/** Full names, optional marks and imports. */
function complete(file: IFileDescriptorProto, owners: ReadonlyMap<string, string>): void {
  const imports = new Set<string>();
  const full = (type: string, scope: string): string => {
    const found = type.startsWith('.') ? type.slice(1) : resolve(type, scope, owners);
    const owner = owners.get(found);
    if (owner !== undefined && owner !== nameOf(file)) imports.add(owner);
    return `.${found}`;
  };
  const visit = (message: IDescriptorProto, scope: string) => {
    const own = `${scope}.${message.name ?? ''}`;
    for (const field of message.field ?? []) {
      if (field.typeName !== undefined && field.typeName !== '') field.typeName = full(field.typeName, own);
      markOptional(field, message);
    }
    for (const nested of message.nestedType ?? []) visit(nested, own);
  };
  const scope = file.package ?? '';
  for (const message of file.messageType ?? []) visit(message, scope);
  for (const service of file.service ?? []) {
    for (const method of service.method ?? []) {
      method.inputType = full(method.inputType ?? '', scope);
      method.outputType = full(method.outputType ?? '', scope);
    }
  }
  file.dependency = [...imports];
}

/** A name seen from a scope: the innermost one that fits. */
function resolve(type: string, scope: string, owners: ReadonlyMap<string, string>): string {
  for (let at = scope; at !== ''; at = at.slice(0, Math.max(0, at.lastIndexOf('.')))) {
    const candidate = `${at}.${type}`;
    if (owners.has(candidate)) return candidate;
  }
  return type;
}

/** `optional` is a choice of one, with a name that begins with an underscore. */
function markOptional(field: IFieldDescriptorProto & { proto3Optional?: boolean }, message: IDescriptorProto): void {
  if (!Object.hasOwn(field, 'oneofIndex') || field.oneofIndex === undefined) return;
  if (message.oneofDecl?.[field.oneofIndex]?.name === `_${field.name ?? ''}`) field.proto3Optional = true;
}
