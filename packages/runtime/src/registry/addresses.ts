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
  ['fc00::', 7],
  ['fec0::', 10],
  ['ff00::', 8],
  // Those that carry an IPv4 address, which a gateway may unwrap; nothing public needs one.
  ['::', 96],
  ['::ffff:0:0:0', 96],
  ['64:ff9b::', 96],
  ['64:ff9b:1::', 48],
  ['2001::', 32],
  ['2002::', 16],
] as const)
  internal.addSubnet(network, prefix, 'ipv6');

const linkLocal = new BlockList();
linkLocal.addSubnet('169.254.0.0', 16, 'ipv4');
linkLocal.addSubnet('fe80::', 10, 'ipv6');
// Where clouds tell machines their credentials, besides the link-local ones.
linkLocal.addAddress('fd00:ec2::254', 'ipv6');
for (const address of ['100.100.100.200', '168.63.129.16', '192.0.0.192']) linkLocal.addAddress(address, 'ipv4');
linkLocal.addSubnet('64:ff9b::a9fe:0', 112, 'ipv6');
linkLocal.addSubnet('2002:a9fe::', 32, 'ipv6');

export type AddressKind = 'public' | 'private' | 'link-local';

/** @param address an IP address as the system writes it */
export function kindOfAddress(address: string): AddressKind {
  const plain = address.replace(/%.*$/, '');
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(plain)?.[1] ?? plain;
  const family = isIP(mapped) === 4 ? 'ipv4' : 'ipv6';
  if (linkLocal.check(mapped, family)) return 'link-local';
  return internal.check(mapped, family) ? 'private' : 'public';
}
