package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Introduce writes into an agent's home who the agent's commits are from: the user who runs the server. The rest of that user's
// configuration of git may name programs and hold secrets. While the user has no name, it looks again at each run.
// env is the environment in which git finds the user's configuration.
func Introduce(home string, env []string) error {
	path := filepath.Join(home, ".gitconfig")
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case info.Mode().IsRegular() && info.Size() == 0: // the user had no name then
		if err := os.Remove(path); err != nil {
			return err
		}
	default:
		return nil
	}
	identity := readIdentity(env)
	if identity == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(identity)
	return errors.Join(err, f.Close())
}

// readIdentity returns a configuration of git with the user's name and address.
func readIdentity(env []string) string {
	cmd := exec.Command("git", "config", "--global", "--includes", "-z", "--get-regexp", `^user\.(name|email)$`)
	cmd.Env = env
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	var text strings.Builder
	for setting := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		key, value, _ := strings.Cut(setting, "\n")
		fmt.Fprintf(&text, "[user]\n\t%s = %q\n", strings.TrimPrefix(key, "user."), value)
	}
	return text.String()
}
