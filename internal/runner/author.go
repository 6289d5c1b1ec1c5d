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

// ConfigureAuthor makes the user of this process the author of an agent's commits, in the git configuration of the
// agent's home. It copies only the user's name and address, because the rest of the user's git configuration may name
// programs and hold secrets. It does not change a .gitconfig that has content. If the user has configured neither a
// name nor an address, it writes nothing, so that the next call tries again. git finds the user's configuration through
// env.
func ConfigureAuthor(home string, env []string) error {
	path := filepath.Join(home, ".gitconfig")
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case info.Mode().IsRegular() && info.Size() == 0: // an earlier version of Fleet found no name, or a call was interrupted
		if err := os.Remove(path); err != nil {
			return err
		}
	default:
		return nil
	}
	identity := readAuthor(env)
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

// readAuthor returns a git configuration with the user's name and address. It is empty if the user has configured
// neither, or if git cannot read the configuration.
func readAuthor(env []string) string {
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
