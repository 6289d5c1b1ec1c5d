package local

import (
	"maps"
	"slices"
	"strings"
)

// basics are the variables that programs need to work at all, and that hold no secrets.
var basics = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TERM", "TMPDIR", "XDG_*", "SSL_CERT_FILE",
	"SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy",
	"all_proxy", "no_proxy",
}

// reserved says whether a variable may hold a secret of the server's, and so is never passed on.
func reserved(name string) bool {
	return strings.HasPrefix(name, "FLEET_") || strings.HasPrefix(name, "CODER_")
}

// pick returns the variables of environ that the patterns name.
func pick(environ []string, patterns ...[]string) map[string]string {
	picked := map[string]string{}
	for _, v := range environ {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" || reserved(name) {
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

// environ is the environment of a run: what programs need, what the driver needs, what the configuration gives, and
// what tells the program about its task. Nothing else of the server's environment is in it.
func (b *Place) environ(p project, c *confinement, own map[string]string) []string {
	env := pick(b.config.Environ, basics, p.driver.Keys(), b.config.PassEnv, p.PassEnv)
	if c != nil {
		maps.DeleteFunc(env, func(name, _ string) bool { return strings.HasPrefix(name, "XDG_") }) // they lead to the user's own home
		maps.Copy(env, c.env)
	}
	maps.Copy(env, p.Env)
	maps.Copy(env, own)
	if env["PATH"] == "" {
		env["PATH"] = "/usr/local/bin:/usr/bin:/bin"
	}
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}

// gitEnviron is the environment of the backend's own git: it may use the keys that its user has loaded.
func gitEnviron(c Config) []string {
	var list []string
	for name, value := range pick(c.Environ, basics, c.PassEnv, []string{"SSH_AUTH_SOCK", "GIT_SSH", "GIT_SSH_COMMAND"}) {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}
