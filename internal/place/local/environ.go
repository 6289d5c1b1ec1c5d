package local

import (
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/runner/driver"
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
func (b *Place) environ(p project, own map[string]string) []string {
	env := pick(b.config.Environ, basics, p.driver.Keys(), b.config.PassEnv, p.PassEnv)
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

// find returns the file of the program, as the environment's PATH has it. PROVISIONING_FAILED says what to install.
func find(program string, env []string, dir string) (string, error) {
	path := program
	if strings.ContainsRune(program, '/') {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if _, err := exec.LookPath(path); err == nil {
			return path, nil
		}
		return "", fleet.Errorf(fleet.ReasonProvisioningFailed,
			"the program %s is not there, or is not executable: correct the command of the project", program)
	}
	i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, "PATH=") })
	for _, d := range filepath.SplitList(strings.TrimPrefix(env[i], "PATH=")) {
		if !filepath.IsAbs(d) {
			continue // a directory that depends on where one is would let a repository choose the program
		}
		if path, err := exec.LookPath(filepath.Join(d, program)); err == nil {
			return path, nil
		}
	}
	hint := driver.HowToInstall(program)
	if hint == "" {
		hint = "install it"
	}
	return "", fleet.Errorf(fleet.ReasonProvisioningFailed,
		"the program %q was not found on the server's PATH: %s, or add its directory to PATH in the project's env", program, hint)
}
