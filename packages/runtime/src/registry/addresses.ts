import { BlockList, isIP } from 'node:net';

const internal = new BlockList();
for (const [network, prefix] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const)
  internal.addSubnet(network, prefix, 'ipv4');
for (const [network, prefix] of [
  ['::', 128],
  ['::1', 128],
  ['fc00::', 7],
  ['ff00::', 8],
  ['64:ff9b::', 96],
] as const)
  internal.addSubnet(network, prefix, 'ipv6');

const linkLocal = new BlockList();
linkLocal.addSubnet('169.254.0.0', 16, 'ipv4');
linkLocal.addSubnet('fe80::', 10, 'ipv6');
// Where clouds tell machines their credentials, besides the link-local ones.
linkLocal.addAddress('fd00:ec2::254', 'ipv6');
linkLocal.addAddress('100.100.100.200', 'ipv4');

export type AddressKind = 'public' | 'private' | 'link-local';

/** @param address an IP address as the system writes it */
export function kindOfAddress(address: string): AddressKind {
  const plain = address.replace(/%.*$/, '');
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(plain)?.[1] ?? plain;
  const family = isIP(mapped) === 4 ? 'ipv4' : 'ipv6';
  if (linkLocal.check(mapped, family)) return 'link-local';
  return internal.check(mapped, family) ? 'private' : 'public';
}
