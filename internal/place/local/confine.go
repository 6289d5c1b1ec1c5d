package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	"fleet/internal/runner/sandbox"
)

// logins are the files in a user's home with which programs log in to their services, by the name of the program. A
// program renews its login, so it may write them too.
var logins = map[string][]string{
	"claude":   {".claude/.credentials.json"},
	"codex":    {".codex/auth.json"},
	"gemini":   {".gemini/oauth_creds.json"},
	"opencode": {".local/share/opencode/auth.json"},
}

// confinement is how the programs of an agent are confined.
type confinement struct {
	policy sandbox.Policy
	env    map[string]string // variables that keep programs within it
}

// sandboxOf returns how the programs of the project are confined: sandbox.Landlock or sandbox.None.
func (b *Place) sandboxOf(p project) (sandbox.Mode, error) {
	mode := p.Sandbox
	if mode == "" {
		mode = b.config.Sandbox
	}
	return sandbox.Choose(mode, p.Network)
}

// Unconfined implements fleet.Confiner.
func (b *Place) Unconfined(a fleet.Agent) string {
	p, err := b.kind(a)
	if err != nil {
		return "" // there is nothing to run
	}
	mode, err := b.sandboxOf(p)
	switch {
	case err != nil:
		return fleet.Words(err)
	case mode != sandbox.None:
		return ""
	}
	if err := sandbox.Available(); err != nil {
		return fleet.Words(err)
	}
	return fmt.Sprintf("the configuration says sandbox: none for the project %q: its operator can change that to auto", p.Name)
}

// confine makes what the agent has of its own and returns how its programs are confined; nil if they are not. env is the
// environment that they would have otherwise.
func (b *Place) confine(p project, h home, r *record) (*confinement, error) {
	mode, err := b.sandboxOf(p)
	if err != nil {
		return nil, fleet.Errorf(fleet.ReasonProvisioningFailed, "the project %q cannot be confined as it is configured: %s", p.Name, err)
	}
	if mode == sandbox.None {
		return nil, nil
	}
	own, tmp := h.path("home"), h.path("tmp")
	c := &confinement{
		policy: sandbox.Policy{Write: []string{h.work(), own, tmp}, Read: slices.Clone(sandbox.System()), Network: p.Network},
		env: map[string]string{
			"HOME": own, "TMPDIR": tmp, "TMP": tmp, "TEMP": tmp, "CLAUDE_CONFIG_DIR": filepath.Join(own, ".claude"), "CLAUDE_CODE_TMPDIR": tmp,
		},
	}
	if p.dir != "" {
		c.policy.Write = append(c.policy.Write, p.dir)
	}
	if r != nil && r.Repository != "" {
		// A worktree's commits are written into the repository until agents have git directories of their own.
		c.policy.Write = append(c.policy.Write, gitDir(r.Repository))
	}
	c.policy.Read = slices.Concat(c.policy.Read, b.config.Read, p.Read)
	c.policy.Write = slices.Concat(c.policy.Write, b.config.Write, p.Write)
	for _, dir := range []string{own, tmp, filepath.Join(own, ".claude")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, runner.HostError("the agent's own directory cannot be made", err)
		}
	}
	if err := b.introduce(own); err != nil {
		return nil, runner.HostError("the agent's git cannot be configured", err)
	}
	for _, login := range logins[filepath.Base(p.driver.Program())] {
		shared, err := b.lend(own, login)
		if err != nil {
			return nil, runner.HostError("the agent cannot be given the login of its program", err)
		}
		c.policy.Write = append(c.policy.Write, shared...)
	}
	return c, nil
}

// gitDir returns where the repository keeps its objects and refs.
func gitDir(repository string) string {
	if dir := filepath.Join(repository, ".git"); isDir(dir) {
		return dir
	}
	return repository
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// introduce writes into the home who the agent's commits are from: the user who runs the server. The rest of that user's
// configuration of git may name programs and hold secrets.
func (b *Place) introduce(own string) error {
	path := filepath.Join(own, ".gitconfig")
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(path, []byte(b.identity()), 0o600)
}

// readIdentity returns a configuration of git with the user's name and address.
func readIdentity(env []string) string {
	var text strings.Builder
	for _, key := range []string{"name", "email"} {
		cmd := exec.Command("git", "config", "--global", "--get", "user."+key)
		cmd.Env = env
		if out, err := cmd.Output(); err == nil {
			if text.Len() == 0 {
				text.WriteString("[user]\n")
			}
			fmt.Fprintf(&text, "\t%s = %q\n", key, strings.TrimSpace(string(out)))
		}
	}
	return text.String()
}

// lend links a file of the user's home into the agent's, and returns the file if the user has it.
func (b *Place) lend(own, name string) ([]string, error) {
	from := filepath.Join(b.variable("HOME"), name)
	if info, err := os.Stat(from); err != nil || !info.Mode().IsRegular() || b.variable("HOME") == "" {
		return nil, nil
	}
	to := filepath.Join(own, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return nil, err
	}
	if err := os.Symlink(from, to); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return []string{from}, nil
}

// variable returns a variable of the server's environment.
func (b *Place) variable(name string) string {
	value, _ := b.lookup(name)
	return value
}
