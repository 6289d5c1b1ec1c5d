package worktree

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"fleet/internal/place/agentfile"
	"fleet/internal/runner/sandbox"
)

// view is a git directory that Fleet uses instead of the git directory of a repository that agents can write. A view
// has the repository's objects, refs and index, but its own configuration. The configuration of a repository can name
// programs that git runs: filters, diff and merge drivers, credential helpers, transports, hooks, and more with each
// version of git. So git must not read that configuration when it could run a program. git still reads the
// configuration of the user and of the system. Agents that run as the server's user can change these files too, but
// they are not a part of the agents' work.
//
// Where the system can confine programs, git is confined too. It can read the repository. It can write only the view
// and, at most, objects and LFS files of the repository.
type view struct {
	git    *Git
	tmp    string // path of the view itself
	dir    string // working directory of git
	env    []string
	policy *sandbox.Policy // nil if git is not confined
	head   string          // content of HEAD
	packs  bool            // new objects are always stored in packs
}

// shared are the parts of a repository that a view links to.
var shared = []string{"objects", "refs", "packed-refs", "shallow", "lfs"}

// plainSetting lists settings of a repository that a view copies. They affect comparisons and name no programs.
var plainSetting = map[string]bool{
	"core.repositoryformatversion": true, "core.sharedrepository": true, "core.filemode": true, "core.ignorecase": true, "core.precomposeunicode": true,
	"core.symlinks": true, "core.autocrlf": true, "core.eol": true, "extensions.objectformat": true,
}

var plainValue = regexp.MustCompile(`^[A-Za-z0-9]+$`)

// view returns a view of the repository to which the directory belongs. If files is set, the directory is a working
// tree, and git can read its files and index. The caller must close the view.
func (g *Git) view(dir string, files bool) (*view, error) {
	common, own := gitDirs(dir)
	if common == "" {
		return nil, noRepository(dir)
	}
	return g.viewOf(nil, dir, common, own, files)
}

func noRepository(dir string) error {
	return &Error{Message: "there is no git repository in " + dir + ": correct the project's repository"}
}

// viewOf works like view, for known git directories. outer is a policy that allows reading them. If outer is nil, git
// is confined to the repository.
func (g *Git) viewOf(outer *sandbox.Policy, dir, common, own string, files bool) (*view, error) {
	settings, err := readSettings(common)
	if err != nil {
		return nil, err
	}
	v, err := g.newView(dir, own, files)
	if err != nil {
		return nil, err
	}
	v.packs = slices.ContainsFunc(settings, isShared) // the sandbox prevents git from setting the group of new directories
	if outer == nil {
		v.policy.Write = append(v.policy.Write, existing(filepath.Join(common, "objects"), filepath.Join(common, "lfs"))...)
		if ownerOf(dir) != nil {
			v.policy.Override = true
			v.packs = true // the owner can remove packs of root, but no objects in directories of root
		}
		v.policy.Read = slices.Concat(v.policy.Read, []string{dir, common, own}, withAlternates(filepath.Join(common, "objects")))
	} else {
		v.policy.Read = slices.Concat(v.policy.Read, outer.Read, outer.Write)
	}
	err = v.link(common, shared)
	if err == nil {
		err = v.fill(common, own, viewConfig(settings, !files), "")
	}
	if err != nil {
		v.close()
		return nil, fmt.Errorf("view of the repository of %s: %w", dir, err)
	}
	return v, nil
}

// newView creates the directory of a view for the git directory own. The view's policy lets git write only this
// directory.
func (g *Git) newView(dir, own string, files bool) (*view, error) {
	tmp, err := os.MkdirTemp(g.temp, "git-*")
	if err == nil {
		tmp, err = filepath.EvalSymlinks(tmp) // a sandbox accepts no link in a path that may be written
	}
	if err != nil {
		return nil, err
	}
	v := &view{git: g, tmp: tmp, dir: dir, env: []string{"GIT_DIR=" + tmp, "GIT_NO_REPLACE_OBJECTS=1"}}
	if files {
		v.env = append(v.env, "GIT_WORK_TREE="+dir, "GIT_INDEX_FILE="+filepath.Join(own, "index"))
	}
	v.policy = &sandbox.Policy{Write: []string{tmp}, Read: slices.Concat(sandbox.System(), g.config()), Network: sandbox.Offline, Limits: g.limits()}
	return v, nil
}

// existing returns the paths that exist.
func existing(paths ...string) []string {
	return slices.DeleteFunc(paths, func(path string) bool {
		_, err := os.Stat(path)
		return err != nil
	})
}

// link links parts of a git directory into the view.
func (v *view) link(common string, names []string) error {
	for _, name := range names {
		if err := os.Symlink(filepath.Join(common, name), filepath.Join(v.tmp, name)); err != nil {
			return err
		}
	}
	return nil
}

// usableHead matches a HEAD that names a ref or a commit.
var usableHead = regexp.MustCompile(`^(ref:\s*refs/\S+|[0-9a-f]{40,64})\s*$`)

// fill completes the view. It takes the directory info from the common git directory, and the working tree's own files
// from own. From info it takes only the files that select files, because grafts would change the history. If branch is set,
// it is used if own has no usable HEAD.
func (v *view) fill(common, own, config, branch string) error {
	if err := os.Mkdir(filepath.Join(v.tmp, "info"), 0o700); err != nil {
		return err
	}
	if err := v.link(common, []string{"info/exclude", "info/attributes"}); err != nil {
		return err
	}
	parts, err := filepath.Glob(filepath.Join(own, "sharedindex.*")) // the parts of a split index
	if err != nil {
		return err
	}
	for _, part := range parts {
		if err := os.Symlink(part, filepath.Join(v.tmp, filepath.Base(part))); err != nil {
			return err
		}
	}
	head, err := agentfile.Read(filepath.Join(own, "HEAD"), maxLink)
	if branch != "" && (err != nil || !usableHead.Match(head)) {
		head, err = []byte("ref: "+branch+"\n"), nil
	}
	if err != nil {
		return err
	}
	v.head = strings.TrimSpace(string(head))
	if err := os.WriteFile(filepath.Join(v.tmp, "HEAD"), head, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(v.tmp, "config"), []byte(config), 0o600)
}

// readSettings returns the lines with plain settings in the configuration of a git directory.
func readSettings(common string) ([]string, error) {
	text, err := agentfile.Read(filepath.Join(common, "config"), maxCopied)
	if err != nil {
		return nil, err
	}
	return parseSettings(text), nil
}

// parseSettings returns the lines with plain settings in the configuration.
func parseSettings(text []byte) (found []string) {
	section := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			name, rest, _ := strings.Cut(line[1:], "]")
			section, line = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(rest)
		}
		name, value, _ := strings.Cut(line, "=")
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.Trim(strings.TrimSpace(value), `"`)
		if plainSetting[section+"."+name] && plainValue.MatchString(value) {
			found = append(found, fmt.Sprintf("[%s]\n\t%s = %s\n", section, name, value))
		}
	}
	return found
}

// isShared reports whether the line of parseSettings sets core.sharedRepository.
func isShared(line string) bool { return strings.Contains(line, "\tsharedrepository =") }

// viewConfig returns the configuration of a view.
func viewConfig(settings []string, bare bool) string {
	return strings.Join(settings, "") + fmt.Sprintf("[core]\n\tbare = %t\n", bare)
}

func (v *view) run(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	if err := v.pipe(ctx, nil, &out, args...); err != nil {
		return "", err
	}
	return strings.TrimSpace(out.String()), nil
}

// pipe works like run, with an input and an output. The input may be nil. If the output is a buffer, it is limited.
func (v *view) pipe(ctx context.Context, in io.Reader, out io.Writer, args ...string) error {
	if b, ok := out.(*bytes.Buffer); ok {
		out = &bounded{to: b}
		err := v.git.pipe(ctx, v.policy, v.env, v.dir, in, out, args...)
		if b.Len() >= maxOutput && ctx.Err() == nil {
			return &Error{Message: fmt.Sprintf("git %s lists more than %d MiB", args[0], maxOutput>>20)}
		}
		return err
	}
	return v.git.pipe(ctx, v.policy, v.env, v.dir, in, out, args...)
}

// maxOutput limits an output of git that the server keeps in memory, in bytes. A few small objects of an agent can stand
// for millions of paths.
const maxOutput = 32 << 20

// bounded passes on at most maxOutput bytes. Then Write returns an error, which ends git.
type bounded struct{ to *bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if room := maxOutput - b.to.Len(); len(p) >= room {
		b.to.Write(p[:room])
		return room, io.ErrShortWrite
	}
	return b.to.Write(p)
}

func (v *view) close() { _ = os.RemoveAll(v.tmp) }
