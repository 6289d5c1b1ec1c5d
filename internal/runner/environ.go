package runner

import (
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/runner/sandbox"
)

// BasicVariables are patterns for PickVariables. They match variables that programs need and that usually hold no secrets.
var BasicVariables = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TERM", "TMPDIR", "XDG_*", "SSL_CERT_FILE",
	"SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy",
	"all_proxy", "no_proxy",
}

// PickVariables returns the variables of environ that match one of the patterns and are not reserved. A pattern is a name, or a
// prefix followed by "*".
func PickVariables(environ []string, patterns ...[]string) map[string]string {
	picked := map[string]string{}
	for _, v := range environ {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" || fleet.IsReservedVariable(name) {
			continue
		}
		for _, pattern := range slices.Concat(patterns...) {
			prefix, isPrefix := strings.CutSuffix(pattern, "*")
			if name == pattern || isPrefix && strings.HasPrefix(name, prefix) {
				picked[name] = value
				break
			}
		}
	}
	return picked
}

// WithoutVariables returns the environment without the variables that PickVariables would return. So reserved variables stay.
func WithoutVariables(environ []string, patterns ...[]string) []string {
	matching := PickVariables(environ, patterns...)
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		_, ok := matching[name]
		return ok
	})
}

// Environ returns the variables in the form of os.Environ, sorted. It adds a default PATH if PATH is missing or empty. If there is a
// proxy, it adds the hosts that programs must reach without the proxy.
func Environ(variables map[string]string) []string {
	variables = withNoProxy(variables)
	list := make([]string, 0, len(variables)+1)
	if variables["PATH"] == "" {
		list = append(list, "PATH=/usr/local/bin:/usr/bin:/bin")
	}
	for name, value := range variables {
		if name != "PATH" || value != "" {
			list = append(list, name+"="+value)
		}
	}
	slices.Sort(list)
	return list
}

// proxyVariables are the variables that name a proxy. Programs read them in either case.
var proxyVariables = []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"}

// withNoProxy returns the variables with NO_PROXY and no_proxy extended by this machine and by the host of
// FLEET_REPORT_URL, if there is a proxy. A call of an agent to Fleet has a token, which a proxy must not see. In a network
// of sandbox.Allow, everything goes through the proxy of the sandbox, so nothing is added.
func withNoProxy(variables map[string]string) map[string]string {
	hasProxy := slices.ContainsFunc(proxyVariables, func(name string) bool { return variables[name] != "" })
	if !hasProxy || variables["HTTP_PROXY"] == "http://"+sandbox.ProxyAddress {
		return variables
	}
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	if u, err := url.Parse(variables["FLEET_REPORT_URL"]); err == nil && u.Hostname() != "" {
		hosts = append(hosts, u.Hostname())
	}
	var noProxy []string
	for _, list := range []string{variables["no_proxy"], variables["NO_PROXY"], strings.Join(hosts, ",")} { // programs that know both names read the first one
		for host := range strings.SplitSeq(list, ",") {
			if host = strings.TrimSpace(host); host != "" && !slices.Contains(noProxy, host) {
				noProxy = append(noProxy, host)
			}
		}
	}
	variables = maps.Clone(variables)
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		variables[name] = strings.Join(noProxy, ",")
	}
	return variables
}

// environ returns the environment of the program. taskVariables describe its task.
func (w Work) environ(taskVariables map[string]string) []string {
	if w.Environ != nil {
		return w.Environ(taskVariables)
	}
	env := PickVariables(os.Environ(), BasicVariables, w.Driver.Keys())
	maps.Copy(env, taskVariables)
	return Environ(env)
}
