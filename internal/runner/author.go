package runner

import (
	"cmp"
	"fmt"
	"os/exec"
	"strings"

	"fleet/internal/runner/filetree"
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

// WithDefaults returns the author with missing fields filled in: the name of the agent, marked as Fleet's, and an address at
// which nobody receives mail.
func (a Author) WithDefaults(agent string) Author {
	return Author{cmp.Or(a.Name, agent+" (Fleet)"), cmp.Or(a.Email, "fleet@localhost")}
}

// GitConfig returns the author as a git configuration.
func (a Author) GitConfig() string {
	var text strings.Builder
	for _, s := range [][2]string{{"name", a.Name}, {"email", a.Email}} {
		if s[1] != "" {
			fmt.Fprintf(&text, "[user]\n\t%s = %s\n", s[0], quoteGitValue(s[1]))
		}
	}
	return text.String()
}

// quoteGitValue returns the text as a quoted value of a git configuration. git accepts fewer escape sequences than Go. Control characters
// that git cannot read or would show are left out.
func quoteGitValue(s string) string {
	quoted := []byte{'"'}
	for _, c := range []byte(s) { // git also accepts bytes that are not UTF-8
		switch {
		case c == '"' || c == '\\':
			quoted = append(quoted, '\\', c)
		case c == '\n':
			quoted = append(quoted, '\\', 'n')
		case c == '\t':
			quoted = append(quoted, '\\', 't')
		case c >= ' ' && c != 0x7f:
			quoted = append(quoted, c)
		}
	}
	return string(append(quoted, '"'))
}

// NoSigning is a git configuration with which commits and tags are not signed.
const NoSigning = "[commit]\n\tgpgSign = false\n[tag]\n\tgpgSign = false\n\tforceSignAnnotated = false\n[push]\n\tgpgSign = false\n"

// Fleet writes gitConfig, and the agent writes agentGitConfig, whose settings take precedence. Git writes settings of
// "git config --global" to agentGitConfig only if that file exists.
const (
	gitConfig      = ".config/git/config"
	agentGitConfig = ".gitconfig"
)

// GitHomeFiles returns the files with the git configuration of an agent's home. It sets the author of the agent's commits. It
// turns off signing, because the home has no keys. Fields that projectAuthor leaves empty come from the configuration of the user of this
// process, which git finds through env. Only the user's name and address are copied, because the rest may name programs and
// hold secrets. If the user has none, the agent itself is the author. The agent can override these settings.
func GitHomeFiles(env []string, agent string, projectAuthor Author) filetree.HomeFiles {
	user := readAuthor(env)
	author := Author{cmp.Or(projectAuthor.Name, user.Name), cmp.Or(projectAuthor.Email, user.Email)}.WithDefaults(agent)
	return filetree.HomeFiles{
		Initial: map[string][]byte{agentGitConfig: nil},
		Managed: map[string][]byte{gitConfig: []byte(author.GitConfig() + NoSigning)},
	}
}

// readAuthor returns the name and the address in the user's git configuration. They are empty if the user has not configured
// them, or if git cannot read the configuration.
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

// AuthorVariables returns variables that make the agent the author of commits. It returns nil if git knows an author in the
// directory with the environment env.
func AuthorVariables(dir string, env []string, agent string) map[string]string {
	if git, err := worktree.Program(); err == nil {
		cmd := exec.Command(git, "-C", dir, "var", "GIT_AUTHOR_IDENT")
		cmd.Env = env
		if cmd.Run() == nil {
			return nil
		}
	}
	a := Author{}.WithDefaults(agent)
	return map[string]string{"GIT_AUTHOR_NAME": a.Name, "GIT_AUTHOR_EMAIL": a.Email, "GIT_COMMITTER_NAME": a.Name, "GIT_COMMITTER_EMAIL": a.Email}
}
