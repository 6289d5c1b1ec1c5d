package worktree

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// view is a git directory of Fleet's own onto a repository that agents can write. It has the repository's objects,
// refs and index, and a configuration that Fleet wrote. A repository's own configuration can name programs that git
// runs (filters, diff and merge drivers, credential helpers, transports, hooks, and more with each version of git), so
// git never reads it where it would run one. What the user or the system has configured still counts: agents that share
// the server's user can write that too, but it is not part of what they work on.
type view struct {
	git *Git
	tmp string // the git directory
	dir string // where git runs
	env []string
}

// shared are the parts of a repository that a view has.
var shared = []string{"objects", "refs", "packed-refs", "shallow", "info", "lfs"}

// plainSetting are the settings of a repository that a view takes over: they say how files are compared, and name nothing.
var plainSetting = map[string]bool{
	"core.repositoryformatversion": true, "core.filemode": true, "core.ignorecase": true, "core.precomposeunicode": true,
	"core.symlinks": true, "core.autocrlf": true, "core.eol": true, "core.safecrlf": true, "extensions.objectformat": true,
}

var plainValue = regexp.MustCompile(`^[A-Za-z0-9]+$`)

// view returns a view of the repository that the directory belongs to; with files set the directory is a working tree,
// and git looks at its files and its index. The caller closes it.
func (g *Git) view(ctx context.Context, dir string, files bool) (*view, error) {
	// rev-parse and config run no program, whatever the configuration is.
	out, err := g.run(ctx, dir, "rev-parse", "--path-format=absolute", "--git-common-dir", "--git-dir")
	if err != nil {
		return nil, err
	}
	common, own, _ := strings.Cut(out, "\n")
	settings, err := g.run(ctx, dir, "config", "--file", filepath.Join(common, "config"), "--no-includes", "-z", "--list")
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "fleet-git-*")
	if err != nil {
		return nil, err
	}
	v := &view{git: g, tmp: tmp, dir: dir, env: []string{"GIT_DIR=" + tmp}}
	if files {
		v.env = append(v.env, "GIT_WORK_TREE="+dir, "GIT_INDEX_FILE="+filepath.Join(own, "index"))
	}
	if err := v.fill(common, own, viewConfig(settings, !files)); err != nil {
		v.close()
		return nil, fmt.Errorf("view of the repository of %s: %w", dir, err)
	}
	return v, nil
}

// fill makes the git directory.
func (v *view) fill(common, own, config string) error {
	for _, name := range shared {
		if err := os.Symlink(filepath.Join(common, name), filepath.Join(v.tmp, name)); err != nil {
			return err
		}
	}
	parts, err := filepath.Glob(filepath.Join(own, "sharedindex.*")) // of an index that is split
	if err != nil {
		return err
	}
	for _, part := range parts {
		if err := os.Symlink(part, filepath.Join(v.tmp, filepath.Base(part))); err != nil {
			return err
		}
	}
	path := filepath.Join(own, "HEAD")
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return &fs.PathError{Op: "read", Path: path, Err: fs.ErrInvalid}
	}
	head, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(v.tmp, "HEAD"), head, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(v.tmp, "config"), []byte(config), 0o600)
}

// viewConfig is the configuration of a view, out of what `git config -z --list` says of the repository's own.
func viewConfig(settings string, bare bool) string {
	var b strings.Builder
	for line := range strings.SplitSeq(settings, "\x00") {
		key, value, _ := strings.Cut(line, "\n")
		if !plainSetting[key] || !plainValue.MatchString(value) {
			continue
		}
		section, name, _ := strings.Cut(key, ".")
		fmt.Fprintf(&b, "[%s]\n\t%s = %s\n", section, name, value)
	}
	fmt.Fprintf(&b, "[core]\n\tbare = %t\n", bare)
	return b.String()
}

func (v *view) run(ctx context.Context, args ...string) (string, error) {
	return v.git.runWith(ctx, v.env, v.dir, args...)
}

func (v *view) close() { _ = os.RemoveAll(v.tmp) }

// read runs one command that only reads the repository.
func (g *Git) read(ctx context.Context, repository string, args ...string) (string, error) {
	v, err := g.view(ctx, repository, false)
	if err != nil {
		return "", err
	}
	defer v.close()
	return v.run(ctx, args...)
}
