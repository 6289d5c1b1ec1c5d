package providers

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"fleet/internal/fleet"
)

// checkVariables refuses variables that the operator has not listed in providers.tool_env. The author of a tool chooses
// the URL that receives its headers, and could otherwise receive any secret of the server's environment.
func (s *Service) checkVariables(t *fleet.Tool) error {
	for _, v := range variablesOf(t) {
		if !slices.Contains(s.cfg.ToolEnv, v) {
			return invalidSpec("", "names the variable %s, which tools may not use: the operator can allow it in providers.tool_env", v)
		}
	}
	return nil
}

// checkAllowed returns PERMISSION_DENIED if the principal may not have the tool. The server itself calls tools, with its
// own rights: a program runs as the server's user, and a host on the server's networks may trust the server. So
// only admins, and the single user of a server without tokens, may have such tools. Settings.ToolHosts lists hosts
// that everybody's tools may call.
func (s *Service) checkAllowed(who fleet.Principal, t *fleet.Tool) error {
	if who.Admin() {
		return nil
	}
	refuse := func(format string, args ...any) error {
		return fleet.Errorf(fleet.ReasonPermissionDenied, format, args...).With("field", "tool_spec")
	}
	if t.Command != nil || t.MCP != nil && t.MCP.Server.Command != "" {
		return refuse("%q may not register a tool that is a program, because it would run as the server's own user: ask an admin, or use an http endpoint or the url of an MCP server", who.Name)
	}
	if u, err := url.Parse(toolURL(t)); err == nil && isInternal(u.Hostname()) && !slices.ContainsFunc(s.cfg.ToolHosts, func(h string) bool { return strings.EqualFold(h, u.Hostname()) }) {
		return refuse("%q may not register a tool on the server's own networks (%s): ask an admin, or for an entry in providers.tool_hosts", who.Name, u.Hostname())
	}
	return nil
}

// isInternal reports whether a host may be on the server's machine or its own networks. It judges only by the text of the
// name or address, and does not resolve names.
func isInternal(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return !strings.Contains(host, ".") || strings.HasSuffix(host, ".localhost") || strings.HasSuffix(host, ".local") ||
			strings.HasSuffix(host, ".internal") || !strings.ContainsFunc(host[strings.LastIndexByte(host, '.')+1:], isLetterOrNonASCII)
	}
	return !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast()
}

// isLetterOrNonASCII reports whether r is a lower-case ASCII letter or a character outside ASCII. A host name whose last label has
// none of these may be an IPv4 address in another notation.
func isLetterOrNonASCII(r rune) bool { return r >= 'a' && r <= 'z' || r > 0x7f }
