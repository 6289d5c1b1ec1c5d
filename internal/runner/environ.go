package runner

import (
	"maps"
	"os"
	"slices"
	"strings"
)

// Basics are patterns for Pick. They match variables that programs need and that usually hold no secrets.
var Basics = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TERM", "TMPDIR", "XDG_*", "SSL_CERT_FILE",
	"SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy",
	"all_proxy", "no_proxy",
}

// Reserved reports whether a variable may hold a secret of the server. Such a variable must not be passed on.
func Reserved(name string) bool {
	return strings.HasPrefix(name, "FLEET_") || strings.HasPrefix(name, "CODER_")
}

// Pick returns the variables of environ that match one of the patterns and are not Reserved. A pattern is a name, or a
// prefix followed by "*".
func Pick(environ []string, patterns ...[]string) map[string]string {
	picked := map[string]string{}
	for _, v := range environ {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" || Reserved(name) {
			continue
		}
		for _, pattern := range slices.Concat(patterns...) {
			prefix, open := strings.CutSuffix(pattern, "*")
			if name == pattern || open && strings.HasPrefix(name, prefix) {
				picked[name] = value
				break
			}
		}
	}
	return picked
}

// Environ returns the variables in the form of os.Environ, sorted. It adds a default PATH if PATH is missing or empty.
func Environ(variables map[string]string) []string {
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

// environ returns the environment of the program. own are the variables that describe its task.
func (w Work) environ(own map[string]string) []string {
	if w.Environ != nil {
		return w.Environ(own)
	}
	env := Pick(os.Environ(), Basics, w.Driver.Keys())
	maps.Copy(env, own)
	return Environ(env)
}
