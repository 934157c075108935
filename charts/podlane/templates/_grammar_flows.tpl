{{/* flows, rewrite, tunnel: see _grammar.tpl. */}}
{{- define "podlane.grammar.flows" -}}
# udp/239.1.1.0/24@10.9.9.9:14310-14320 as [item, address, /prefix, @source, :ports], or [item, sentence].
- name: flowParts
  expression: |-
    variables.settings.filter(s, s[0].split('.')[0] == 'flows').map(s, s[1].split(',').map(f,
      !f.contains('/') ? [s[2] + "'" + f + "'", ' must be protocol/address, such as udp/239.1.1.1:14310'] :
      !(f.split('/')[0] in ['tcp', 'udp']) ? [s[2] + "'" + f + "'", ": protocol '" + f.split('/')[0] + "' must be one of tcp, udp"] :
      [f.substring(f.indexOf('/') + 1)].map(r,
        !r.startsWith('[') && r.split('@')[0].split(':').size() > 2
          ? [s[2] + "'" + f + "'", ': an IPv6 address must be written in brackets, such as [2001:db8::1]'] :
        !r.matches(r'^(\[[^\[\]]*\]|[^/@:\[\]]*)(/[^@:]*)?(@(\[[^\[\]]*\]|[^:@\[\]]*))?(:[^:\[\]]*)?$')
          ? [s[2] + "'" + f + "'", ' must be protocol/address[/prefix][@source][:port[-port]]'] :
        [s[2] + "'" + f + "'", r.find(r'^(\[[^\]]*\]|[^/@:]*)'), r.substring(r.find(r'^(\[[^\]]*\]|[^/@:]*)').size()).find(r'^/[^@:]*'),
         r.find(r'@(\[[^\]]*\]|[^:]*)'), r.find(r':[^:\[\]]*$')])[0]))
- name: flowsError
  expression: |-
    variables.flowParts.map(fs, fs.map(f, f.size() == 2 ? f[0] + f[1] :
      [f[1].replace('[', '').replace(']', '')].map(d,
        !isIP(d) || (ip(d).family() == 6) != f[1].startsWith('[')
          ? f[0] + ": '" + d + "' is not an IP address; write 10.1.2.3 or [2001:db8::1]" :
        f[2] != '' && !(f[2].matches('^/[1-9][0-9]{0,2}$') && isCIDR(d + f[2]))
          ? f[0] + ": prefix length '" + f[2].substring(1) + "' must be from 1 to " + (ip(d).family() == 4 ? '32' : '128') :
        f[2] != '' && cidr(d + f[2]).masked() != cidr(d + f[2])
          ? f[0] + ' has host bits; the network is ' + string(cidr(d + f[2]).masked()) :
        f[3] != '' && ![f[3].substring(1).replace('[', '').replace(']', '')].all(src,
            isIP(src) && (ip(src).family() == 6) == f[3].startsWith('@['))
          ? f[0] + ": source '" + f[3].substring(1) + "' is not an IP address; write 10.1.2.3 or [2001:db8::1]" :
        f[3] != '' && ip(f[3].substring(1).replace('[', '').replace(']', '')).family() != ip(d).family()
          ? f[0] + ': source and destination must be of one family' :
        f[4] == '' ? '' :
        !f[4].substring(1).split('-').all(p, p.matches('^[1-9][0-9]{0,4}$') && int(p) <= 65535)
          ? f[0] + ": port '" + f[4].substring(1) + "' must be from 1 to 65535" :
        f[4].substring(1).split('-').size() > 2
            || f[4].contains('-') && int(f[4].substring(1).split('-')[0]) > int(f[4].substring(1).split('-')[1])
          ? f[0] + ': the ports must be low-high' : '')[0]).filter(e, e != '').join("\n"))
    .filter(e, e != '').join("\n").split("\n")[0]
# tcp/198.51.100.10:443=10.20.0.5:8443|10.20.0.6:8443 as [item, protocol, left, backend, backend…], or [item, sentence].
- name: rewriteParts
  expression: |-
    variables.settings.filter(s, s[0].split('.')[0] == 'rewrite').map(s, s[1].split(',').map(f,
      f.split('=').size() != 2 ? [s[2] + "'" + f + "'", ' must be address:port=backend:port'] :
      f.split('=')[0].contains('/') && !(f.split('/')[0] in ['tcp', 'udp'])
        ? [s[2] + "'" + f + "'", ": protocol '" + f.split('/')[0] + "' must be one of tcp, udp"] :
      [s[2] + "'" + f + "'", f.split('=')[0].contains('/') ? f.split('/')[0] : 'any',
       f.split('=')[0].contains('/') ? f.split('=')[0].substring(f.indexOf('/') + 1) : f.split('=')[0]]
      + f.split('=')[1].split('|')))
- name: rewriteError
  expression: |-
    variables.rewriteParts.map(fs,
      fs.map(f, f.size() == 2 ? f[0] + f[1] :
        f.map(t, t == f[0] || t == f[1] ? '' :
          [t.find(r'^(\[[^\]]*\]|[^:\[\]]*)')].map(head, [head.replace('[', '').replace(']', ''), t.substring(head.size()),
              t == f[2] ? 'address to rewrite' : 'backend'].map(x, x)).map(h,
            t == '' ? f[0] + ' has no ' + h[2] + '; write address:port' :
            !t.startsWith('[') && t.split(':').size() > 2 ? f[0] + ': an IPv6 address must be written in brackets, such as [2001:db8::1]' :
            !isIP(h[0]) || (ip(h[0]).family() == 6) != t.startsWith('[')
              ? f[0] + ": '" + h[0] + "' is not an IP address; write 10.1.2.3 or [2001:db8::1]" :
            !h[1].startsWith(':') ? f[0] + ': ' + h[2] + " '" + t + "' has no port; write address:port" :
            !(h[1].matches('^:[1-9][0-9]{0,4}$') && int(h[1].substring(1)) <= 65535)
              ? f[0] + ": port '" + h[1].substring(1) + "' must be from 1 to 65535" :
            f[2].startsWith('[') != t.startsWith('[')
              ? f[0] + ": backend '" + t + "' must be of the same address family as the left side" : '')[0])
        .filter(e, e != '').join("\n")).filter(e, e != '').join("\n"))
    .filter(e, e != '').join("\n").split("\n")[0]
- name: rewriteTwiceError
  expression: |-
    variables.rewriteError != '' ? '' :
      variables.rewriteParts.map(fs, fs.filter(f, fs.filter(g, g[2] == f[2] && (g[1] == f[1] || g[1] == 'any' || f[1] == 'any')).size() > 1).map(f,
        f[0] + ': address, port and protocol on the left stand there twice; join the backends with |').join("\n"))
      .filter(e, e != '').join("\n").split("\n")[0]
- name: tunnelError
  expression: |-
    variables.settings.filter(s, s[0] == 'tunnel' && !(s[1].size() <= 253
        && s[1].matches(r'^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$'))).map(s,
      s[2] + "must be the name of a Secret: lower case letters, digits, '-' and '.', at most 253 characters").join("\n").split("\n")[0]
- name: builtError
  expression: |-
    variables.settings.map(s, [s[0].split('.')[0], s[1], s[2]]).map(s,
{{- range fromYamlArray (.Files.Get "files/not-built.yaml") }}
      s[0] == {{ index . 0 | toJson }}{{ with index . 1 }} && s[1] == {{ toJson . }}{{ end }} ? s[2] + {{ index . 2 | toJson }} :
{{- end }} '').filter(e, e != '').join("\n").split("\n")[0]
{{- end -}}
