package worktree

import "net/url"

// credentialHelper is a credential helper for git. It returns the user and the password from the environment.
const credentialHelper = `!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' "$FLEET_GIT_USERNAME" "$FLEET_GIT_PASSWORD"; }; f`

// withoutPassword returns an HTTP URL without its user and password, and environment variables that make git send them
// to the same host. It is necessary because other users of this machine can read git's command lines. A source that is
// not an HTTP URL, or has no password, is returned unchanged.
func withoutPassword(source string) (plain string, env []string) {
	u, err := url.Parse(source)
	if err != nil || u.User == nil || u.Scheme != "http" && u.Scheme != "https" {
		return source, nil
	}
	user := u.User.Username()
	password, ok := u.User.Password()
	if !ok {
		return source, nil
	}
	u.User = nil
	key := "credential." + u.Scheme + "://" + u.Host + ".helper"
	return u.String(), []string{
		"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=" + key, "GIT_CONFIG_VALUE_0=", // disables the user's helpers
		"GIT_CONFIG_KEY_1=" + key, "GIT_CONFIG_VALUE_1=" + credentialHelper,
		"FLEET_GIT_USERNAME=" + user, "FLEET_GIT_PASSWORD=" + password,
	}
}
