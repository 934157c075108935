{{/*
The grammar of the annotations, as variables that are a sentence when something is wrong and '' when not. The same grammar is in
lib/lane/annotations.cpp, where it is checked once more; shared cases for both: tests/unit/lane/annotations_cases.json.
A sentence begins with key and value. Line breaks would make the API server drop it.
*/}}
{{- define "podlane.grammar.variables" -}}
# Names without podlane.io/, in the order of the alphabet as the API server gives them or in any other.
- name: names
  expression: variables.annotations.filter(k, k.startsWith('podlane.io/')).map(k, string(k).substring(11))
- name: known
  expression: "['lanes', 'container', 'path', 'mode', 'flows', 'addresses', 'rewrite', 'onload', 'tunnel', 'status']"
- name: ofPools
  expression: "['path', 'mode', 'flows', 'addresses', 'rewrite']"
- name: typos
  expression: |-
    {'lane': 'lanes', 'pool': 'lanes', 'pools': 'lanes', 'queue': 'lanes', 'queues': 'lanes', 'Lanes': 'lanes', 'Lane': 'lanes',
     'containers': 'container', 'name': 'container', 'paths': 'path', 'Path': 'path', 'modes': 'mode', 'Mode': 'mode', 'wait': 'mode',
     'spinning': 'mode', 'flow': 'flows', 'group': 'flows', 'groups': 'flows', 'address': 'addresses', 'adresses': 'addresses',
     'adress': 'addresses', 'addr': 'addresses', 'ip': 'addresses', 'ips': 'addresses', 'rewrites': 'rewrite', 'nat': 'rewrite',
     'dnat': 'rewrite', 'Onload': 'onload', 'tunnels': 'tunnel', 'vpn': 'tunnel', 'state': 'status'}
- name: keysError
  expression: |-
    variables.names.filter(n, !(n.split('.')[0] in variables.known) || n.endsWith('.')).map(n,
      "unknown annotation 'podlane.io/" + n + "'" + (
        n.split('.')[0] in variables.typos ? "; did you mean 'podlane.io/" + variables.typos[n.split('.')[0]] + "'?" :
        n.split('.')[0] in variables.known ? "; did you mean 'podlane.io/" + n.split('.')[0] + "'?" :
        '; known are podlane.io/ followed by ' + variables.known.join(', ')))
    .map(e, string(e)).join("\n").split("\n")[0]
- name: scopeError
  expression: |-
    variables.names.filter(n, n.contains('.') && n.split('.')[0] in variables.known && !(n.split('.')[0] in variables.ofPools)).map(n,
      "annotation 'podlane.io/" + n + "' applies to the whole pod and takes no pool; write 'podlane.io/" + n.split('.')[0] + "'")
    .join("\n").split("\n")[0]
- name: statusError
  expression: |-
    !('status' in variables.names) ? '' :
      "annotation 'podlane.io/status' is written by the device plugin only; leave it out"
# [name, value] of each annotation, and what a sentence about it begins with.
- name: settings
  expression: |-
    variables.names.map(n, [n, string(variables.annotations['podlane.io/' + n])]).map(s, [s[0], s[1],
      'podlane.io/' + s[0] + " '" + (s[1].size() > 100 ? s[1].substring(0, 100) + '…' : s[1]).replace("\n", ' ').replace("\r", ' ') + "': "])
- name: sizeError
  expression: |-
    variables.settings.filter(s, s[1].size() > 4096).map(s, s[2] + 'has ' + string(s[1].size()) + ' characters; at most 4096 are allowed')
    .join("\n").split("\n")[0]
- name: askedError
  expression: |-
    'lanes' in variables.names ? '' :
      variables.settings.filter(s, !(s[0] in ['status', 'onload']) && !(s[0] == 'container' && 'onload' in variables.names)).map(s,
        s[2] + 'the pod has no podlane.io/lanes; name there the pools it takes lanes of').join("\n").split("\n")[0]
# The first item that is wrong, as [pool, count].
- name: lanesError
  expression: |-
    variables.lanesAreRight
      ? variables.items.filter(i, variables.items.filter(j, j[0] == i[0]).size() > 1).map(i,
          'podlane.io/lanes ' + "'" + variables.lanes + "': names pool '" + i[0] + "' twice; write it once with a count, such as " + i[0] + '=2')
          .join("\n").split("\n")[0]
      : variables.settings.filter(s, s[0] == 'lanes').map(s, s[2] + (
          s[1].split(',').size() > 64 ? 'names ' + string(s[1].split(',').size()) + ' pools; at most 64 are allowed' :
          s[1].trim() == '' ? 'names no pool; write a pool such as feed, or feed=2,orders' :
          s[1].split(',').filter(i, !i.matches(r'^{{ include "podlane.cel.lanesItem" . }}$')).map(i,
            [i.split('=', 2).map(t, t.replace("\n", ' ').trim())].map(p,
              p[0].matches(r'^{{ include "podlane.cel.poolName" . }}$')
                ? (p.size() < 2 ? "pool '" + p[0] + "' must stand without line breaks"
                   : "count '" + p[1] + "' of pool '" + p[0] + "' must be a whole number from 1 to 64")
                : p[0] == '' ? "a pool's name is expected, got nothing"
                : p[0].size() > 48 ? "pool '" + p[0] + "' has " + string(p[0].size()) + ' characters; at most 48 are allowed'
                : "pool '" + p[0] + "' must be of lower case letters, digits and '-', with a letter or digit at both ends")[0])[0]))
        .join("\n").split("\n")[0]
- name: poolsError
  expression: |-
    variables.rows.filter(r, r[2] == '').map(r,
      'podlane.io/lanes ' + "'" + variables.lanes + "': there is no pool '" + r[0] + "'; {{ if .Values.pools }}the pools are {{ range $i, $pool := .Values.pools }}{{ if $i }}, {{ end }}{{ $pool.name }}{{ end }}{{ else }}podlane has no pools: name them in the chart's value pools{{ end }}")
    .join("\n").split("\n")[0]
- name: suffixError
  expression: |-
    !variables.lanesAreRight ? '' :
      variables.settings.filter(s, s[0].contains('.') && !variables.items.exists(i, i[0] == s[0].substring(s[0].indexOf('.') + 1))).map(s,
        s[2] + "the pod asks for no lane of pool '" + s[0].substring(s[0].indexOf('.') + 1) + "'; its pools are "
        + variables.items.map(i, i[0]).join(', ')).join("\n").split("\n")[0]
- name: containerError
  expression: |-
    !('container' in variables.names) || variables.targetIsThere ? '' :
      'podlane.io/container ' + "'" + variables.target.replace("\n", ' ') + "': is not a container of the pod; it has "
      + variables.containers.map(c, string(c.name)).join(', ')
- name: pathError
  expression: |-
    variables.settings.filter(s, s[0].split('.')[0] == 'path' && !(s[1] in ['relay', 'direct', 'kernel'])).map(s,
      s[2] + 'must be one of relay, direct, kernel').join("\n").split("\n")[0]
- name: modeError
  expression: |-
    variables.settings.filter(s, s[0].split('.')[0] in ['mode', 'onload'] && !(s[1] in ['spinning', 'interrupt', 'adaptive'])).map(s,
      s[2] + 'must be one of spinning, interrupt, adaptive').join("\n").split("\n")[0]
# A pool's own annotation wins over the pod's.
- name: kindError
  expression: |-
    (variables.rows.filter(r, r[2] == 'tun').map(r,
       variables.settings.filter(s, s[0] == 'path.' + r[0] || s[0] == 'path' && !(('path.' + r[0]) in variables.names)).map(s,
         s[2] + "pool '" + r[0] + "' is of kind tun, whose lanes take no path (not '" + s[1] + "'); write podlane.io/path.<pool> for the others")
       .join("\n"))
     + variables.rows.filter(r, r[2] == 'queue' && r[3] == 'kernel').map(r,
         'podlane.io/path' + (('path.' + r[0]) in variables.names ? '.' + r[0] : '') + " 'kernel': path kernel cannot serve pool '" + r[0]
         + "' of kind queue, whose NIC stays on the host; use relay or direct"))
    .filter(e, e != '').join("\n").split("\n")[0]
- name: powersOfTwo
  expression: "[{{ range $i, $_ := until 32 }}{{ if $i }}, {{ end }}{{ $n := 1 }}{{ range until $i }}{{ $n = mul $n 2 }}{{ end }}{{ $n }}{{ end }}]"
# Each address alone, then each lane's, then all.
- name: addressesError
  expression: |-
    variables.settings.filter(s, s[0].split('.')[0] == 'addresses').map(s,
      s[1].split(',').map(l,
        (l.split('|').map(a,
           !a.contains('/') ? "'" + a + "' has no prefix; write address/prefix, such as 10.9.0.50/24" :
           !isCIDR(a) ? "'" + a + "' is no IPv4 or IPv6 address with its prefix, such as 10.9.0.50/24 or 2001:db8::50/64" :
           cidr(a).prefixLength() == 0 ? "'" + a + "' has a bad prefix length; it must be from 1" :
           cidr(a).ip().isUnspecified() ? "'" + a + "' is the unspecified address; a lane needs an address of its own" :
           cidr(a).ip().isLoopback() ? "'" + a + "' is a loopback address; a lane needs an address of its own" :
           a.matches(r'^(22[4-9]|23[0-9])\.|^[fF][fF][0-9a-fA-F]{2}:') ? "'" + a + "' is a multicast address; a lane needs an address of its own" :
           a.matches(r'^(0|24[0-9]|25[0-9])\.') ? "'" + a + "' is a reserved address; a lane needs an address of its own" :
           cidr(a).prefixLength() + 2 > (cidr(a).ip().family() == 4 ? 32 : 128) ? '' :
           cidr(a).masked() == cidr(a) ? "'" + a + "' is the network address of its prefix; a lane needs an address of its own" :
           cidr(a).ip().family() == 4 && [a.split('/')[0].split('.').map(o, int(o))].all(o,
             (((o[0] * 256 + o[1]) * 256 + o[2]) * 256 + o[3] + 1) % variables.powersOfTwo[32 - cidr(a).prefixLength()] == 0)
             ? "'" + a + "' is the broadcast address of its prefix; a lane needs an address of its own" : '')
         + [l.split('|').size() > 2 ? "'" + l + "' has more than two addresses" :
            l.split('|').all(a, isCIDR(a)) && l.split('|').size() == 2 && l.split('|').all(a, cidr(a).ip().family() == cidr(l.split('|')[0]).ip().family())
              ? "'" + l + "' has two addresses of one family; a lane takes one of each, lanes are parted by ','" : ''])
        .filter(e, e != '').join("\n")).filter(e, e != '').map(e, s[2] + e.split("\n")[0]).join("\n")
      + [s[1].replace('|', ',').split(',')].map(all, all.all(a, isCIDR(a)) ? all.filter(a, all.filter(b, cidr(b).ip() == cidr(a).ip()).size() > 1).map(a,
          "\n" + s[2] + "'" + a + "' is written twice").join('') : '')[0])
    .join("\n").split("\n").filter(e, e != '').map(e, e).join("\n").split("\n")[0]
- name: addressCountError
  expression: |-
    !variables.lanesAreRight ? '' :
      variables.settings.filter(s, s[0].split('.')[0] == 'addresses').map(s, [s[2], string(s[1].split(',').size()),
        string(variables.items.filter(i, s[0] == 'addresses' ? !(('addresses.' + i[0]) in variables.names) : s[0] == 'addresses.' + i[0])
          .map(i, int(i[1])).sum())]).filter(c, c[1] != c[2]).map(c,
        c[0] + 'has addresses for ' + c[1] + ' lanes where the pod asks for ' + c[2]).join("\n").split("\n")[0]
{{- end -}}
