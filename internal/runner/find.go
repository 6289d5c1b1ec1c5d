package runner

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/runner/driver"
)

// FindProgram returns the path of the program. It looks for a name without a slash in the absolute directories of the PATH in env.
// A relative path with a slash is relative to dir. The error is PROVISIONING_FAILED, and says what to install or correct.
func FindProgram(program string, env []string, dir string) (string, error) {
	path := program
	if strings.ContainsRune(program, '/') {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if _, err := exec.LookPath(path); err == nil {
			return path, nil
		}
		return "", fleet.Errorf(fleet.ReasonProvisioningFailed,
			"the program %s does not exist, or is not executable: correct the command of the project", program).WithReasonCode(fleet.CodeProgramMissing)
	}
	var dirs string
	if i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, "PATH=") }); i >= 0 {
		dirs = strings.TrimPrefix(env[i], "PATH=")
	}
	for _, d := range filepath.SplitList(dirs) {
		if !filepath.IsAbs(d) {
			continue // with a relative directory, a repository could choose the program
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
		"the program %q was not found on the server's PATH: %s, or add its directory to PATH in the project's env", program, hint).WithReasonCode(fleet.CodeProgramMissing)
}
