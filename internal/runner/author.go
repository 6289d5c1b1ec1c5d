package runner

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"fleet/internal/place/agentfile"
	"fleet/internal/runner/worktree"
)

// Author is the author of an agent's commits.
type Author struct {
	Name  string `yaml:"name"`
	Email string `yaml:"email"`
}

// Validate returns an error if git would refuse or change the name or the address.
func (a Author) Validate() error {
	for field, value := range map[string]string{"name": a.Name, "email": a.Email} {
		if strings.ContainsAny(value, "<>\n\r\x00") || strings.TrimSpace(value) != value {
			return fmt.Errorf("git: %s must not contain <, > or line breaks, or begin or end with a space", field)
		}
	}
	return nil
}

// OfAgent returns the author with what is missing completed: the name of the agent, marked as Fleet's, and an address
// at which nobody receives mail.
func (a Author) OfAgent(agent string) Author {
	return Author{cmp.Or(a.Name, agent+" (Fleet)"), cmp.Or(a.Email, "fleet@localhost")}
}

// Settings returns the author as a git configuration.
func (a Author) Settings() string {
	var text strings.Builder
	for _, s := range [][2]string{{"name", a.Name}, {"email", a.Email}} {
		if s[1] != "" {
			fmt.Fprintf(&text, "[user]\n\t%s = %q\n", s[0], s[1])
		}
	}
	return text.String()
}

// Unsigned is a git configuration with which commits and tags are not signed.
const Unsigned = "[commit]\n\tgpgSign = false\n[tag]\n\tgpgSign = false\n\tforceSignAnnotated = false\n[push]\n\tgpgSign = false\n"

// Fleet writes gitConfig, and the agent writes ownGitConfig, which wins. Git writes settings of "git config --global" to
// ownGitConfig only if that file exists.
const (
	gitConfig    = ".config/git/config"
	ownGitConfig = ".gitconfig"
)

// ConfigureGit writes the git configuration of an agent's home: the author of its commits, and that commits are not
// signed, because the home has no keys. What own does not say comes from the configuration of the user of this process,
// which git finds through env. Only the user's name and address are copied, because the rest may name programs and hold
// secrets. If the user has none, the agent itself is the author. The agent can override these settings.
func ConfigureGit(home string, env []string, agent string, own Author) error {
	user := readAuthor(env)
	author := Author{cmp.Or(own.Name, user.Name), cmp.Or(own.Email, user.Email)}.OfAgent(agent)
	text := author.Settings() + Unsigned
	root, err := os.OpenRoot(home) // the agent can create symbolic links
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	f, err := root.OpenFile(ownGitConfig, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if now, err := agentfile.Read(filepath.Join(home, gitConfig), maxFile); err == nil && string(now) == text {
		return nil
	}
	if err := root.MkdirAll(filepath.Dir(gitConfig), 0o700); err != nil {
		return err
	}
	if err := root.RemoveAll(gitConfig + ".new"); err != nil {
		return err
	}
	if err := root.WriteFile(gitConfig+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return root.Rename(gitConfig+".new", gitConfig)
}

// readAuthor returns the user's name and address. They are empty if the user has not configured them, or if git cannot
// read the configuration.
func readAuthor(env []string) (a Author) {
	git, err := worktree.Program()
	if err != nil {
		return a
	}
	cmd := exec.Command(git, "config", "--global", "--includes", "-z", "--get-regexp", `^user\.(name|email)$`)
	cmd.Env = env
	out, err := cmd.Output()
	if err != nil {
		return a
	}
	for setting := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		switch key, value, _ := strings.Cut(setting, "\n"); key {
		case "user.name":
			a.Name = value
		case "user.email":
			a.Email = value
		}
	}
	return a
}

// AuthorEnviron returns variables that make the agent the author of commits. It returns nil if git in the directory,
// with the environment env, knows an author.
func AuthorEnviron(dir string, env []string, agent string) map[string]string {
	if git, err := worktree.Program(); err == nil {
		cmd := exec.Command(git, "-C", dir, "var", "GIT_AUTHOR_IDENT")
		cmd.Env = env
		if cmd.Run() == nil {
			return nil
		}
	}
	a := Author{}.OfAgent(agent)
	return map[string]string{"GIT_AUTHOR_NAME": a.Name, "GIT_AUTHOR_EMAIL": a.Email, "GIT_COMMITTER_NAME": a.Name, "GIT_COMMITTER_EMAIL": a.Email}
}
