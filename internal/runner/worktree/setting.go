package worktree

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// notCopiedPattern matches settings that describe the layout of a repository, or that are not valid in another repository.
var notCopiedPattern = regexp.MustCompile(`^(core\.(bare|worktree|sharedrepository|fsmonitor|untrackedcache|sparsecheckout.*|splitindex|repositoryformatversion)|include\..*|includeif\..*|index\.sparse|extensions\.(worktreeconfig|refstorage)|gc\..*|maintenance\..*)$`)

// setting is a setting of a git configuration.
type setting struct {
	key, value string
	hasValue   bool // git reads a key without a value as true
}

// String returns the setting as lines of a configuration file, or an empty text if the key is not valid.
func (s setting) String() string {
	i, j := strings.IndexByte(s.key, '.'), strings.LastIndexByte(s.key, '.')
	if i < 0 {
		return ""
	}
	section := s.key[:i]
	if i != j {
		section += " " + quoteConfig(s.key[i+1:j])
	}
	value := ""
	if s.hasValue {
		value = " = " + quoteConfig(s.value)
	}
	return fmt.Sprintf("[%s]\n\t%s%s\n", section, s.key[j+1:], value)
}

// settings returns the settings in the configuration of the common git directory, and in the files that it includes.
func (g *Git) settings(ctx context.Context, common string) ([]setting, error) {
	list, err := g.run(ctx, "/", "config", "--file", filepath.Join(common, "config"), "--includes", "-z", "--list")
	if err != nil {
		return nil, err
	}
	var all []setting
	for line := range strings.SplitSeq(list, "\x00") {
		key, value, has := strings.Cut(line, "\n")
		all = append(all, setting{key, value, has})
	}
	return all, nil
}

// configForAgent returns the part of the repository's configuration that the agent's git directory gets: remotes, filters and preferences.
// Programs that this configuration names run as the agent. configForAgent also returns the directory whose hooks the agent
// needs.
func (g *Git) configForAgent(ctx context.Context, common string) (config, hooks string, err error) {
	all, err := g.settings(ctx, common)
	if err != nil {
		return "", "", err
	}
	hooks = filepath.Join(common, "hooks")
	var b strings.Builder
	version := "0"
	for _, s := range all {
		switch {
		case notCopiedPattern.MatchString(s.key):
			continue
		case s.key == "core.hookspath" && (filepath.IsAbs(s.value) || strings.HasPrefix(s.value, "~")):
			// The agent has another home and may not read the directory. A relative path is below the working tree.
			hooks, err = g.run(ctx, "/", "config", "--file", filepath.Join(common, "config"), "--includes", "--type=path", "--get", s.key)
			if err != nil {
				return "", "", err
			}
			continue
		case strings.HasPrefix(s.key, "extensions."):
			version = "1"
		}
		b.WriteString(s.String())
	}
	fmt.Fprintf(&b, "[core]\n\tbare = false\n\trepositoryformatversion = %s\n", version)
	return b.String(), hooks, nil
}

// quoteConfig quotes a value for a git configuration.
func quoteConfig(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`).Replace(s) + `"`
}
