import { expect, it } from 'vitest';
import { kindOfAddress } from './addresses.js';
import { isNamed } from './allowed-urls.js';

it.each([
  ['8.8.8.8', 'public'],
  ['2606:4700::1111', 'public'],
  ['127.0.0.1', 'private'],
  ['127.8.8.8', 'private'],
  ['10.1.2.3', 'private'],
  ['172.31.255.255', 'private'],
  ['172.32.0.1', 'public'],
  ['192.168.1.1', 'private'],
  ['100.64.0.1', 'private'],
  ['0.0.0.0', 'private'],
  ['255.255.255.255', 'private'],
  ['::1', 'private'],
  ['::', 'private'],
  ['fd12::1', 'private'],
  ['::ffff:10.0.0.1', 'private'],
  ['64:ff9b::a00:1', 'private'],
  ['::127.0.0.1', 'private'],
  ['::ffff:0:127.0.0.1', 'private'],
  ['64:ff9b:1::7f00:1', 'private'],
  ['2002:7f00:1::', 'private'],
  ['2001:0:7f00:1::', 'private'],
  ['fec0::1', 'private'],
  ['::ffff:8.8.8.8', 'public'],
  ['169.254.169.254', 'link-local'],
  ['64:ff9b::a9fe:a9fe', 'link-local'],
  ['2002:a9fe:a9fe::1', 'link-local'],
  ['168.63.129.16', 'link-local'],
  ['::ffff:169.254.169.254', 'link-local'],
  ['fe80::1%eth0', 'link-local'],
  ['fd00:ec2::254', 'link-local'],
])('%s is %s', (address, kind) => expect(kindOfAddress(address)).toBe(kind));

it.each([
  ['http://10.0.0.5/a.mar', 'http://10\\.0\\.0\\.5/.*', true],
  ['http://10.0.0.5/a.mar', 'http://10.0.0.5/.*', true],
  ['http://10.0.0.5:81/a.mar', 'http://10.0.0.5:81/.*', true],
  ['http://10.0.0.5/a.mar', 'http://.*', false],
  ['http://10.0.0.5/a.mar', 'http://10.0.0.50/.*|.*', false],
  ['http://store.internal/a.mar', 'https?://store\\.internal/.*', true],
  ['http://store.internal.evil.org/a.mar', 'http://store\\.internal.*', false],
])('%s is named by %s: %s', (url, pattern, named) => expect(isNamed(new URL(url), [pattern])).toBe(named));
