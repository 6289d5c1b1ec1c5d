package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"fleet/internal/runner/gitfiles"
	"fleet/internal/runner/sandbox"
	"fleet/internal/scratch"
)

// view is a git directory that Fleet uses instead of the git directory of a repository that agents can write. A view
// links to the repository's objects and refs, but has its own configuration. The configuration of a repository can name
// programs that git runs: filters, diff and merge drivers, credential helpers, transports, hooks, and more with each
// version of git. So git must not read that configuration when it could run a program. git still reads the
// configuration of the user and of the system. Agents that run as the server's user can change these files too, but
// they are not a part of the agents' work.
//
// Where the system can confine programs, git is confined too. It can read the repository. It can write only the view
// and, at most, objects and LFS files of the repository.
type view struct {
	git         *Git
	gitDir      string // path of the view itself
	dir         string // working directory of git
	env         []string
	policy      *sandbox.Policy // nil if git is not confined
	headContent string          // of the file HEAD of the view
	info        gitfiles.Info   // describes the git directory that the view stands for
	alwaysPacks bool            // new objects are always stored in packs
	fallbackDir *scratch.Dir    // contains gitDir if the disk of the directory for temporary files is full
}

// sharedParts are the parts of a repository that a view links to.
var sharedParts = []string{"objects", "refs", "packed-refs", "shallow", "lfs"}

// openRepository returns a view of the repository to which the directory belongs. The caller must close it.
func (g *Git) openRepository(dir string) (*view, error) { return g.openView(dir, false) }

// openWorkingTree works like openRepository for a working tree. git can also read the tree's files and its index.
func (g *Git) openWorkingTree(dir string) (*view, error) { return g.openView(dir, true) }

func noRepositoryError(dir string) error {
	return &Error{Message: "there is no git repository in " + dir + ": correct the project's repository"}
}

// openView returns a view of the repository to which the directory belongs. If withFiles is set, git can also use the directory as its working
// tree, with the tree's own index.
func (g *Git) openView(dir string, withFiles bool) (*view, error) {
	common, gitDir := gitDirs(dir)
	if common == "" {
		return nil, noRepositoryError(dir)
	}
	info, err := gitfiles.Read(gitDir)
	if withFiles { // an agent works there, so its files are not trusted
		info, err = sandbox.ReadGit(context.Background(), gitDir)
	}
	commonInfo := info
	if err == nil && common != gitDir {
		commonInfo, err = gitfiles.Read(common)
	}
	if err == nil && commonInfo.ConfigBroken {
		err = &Error{Message: "cannot read the configuration of the repository of " + dir}
	}
	if err != nil {
		return nil, err
	}
	return withFallbackDir(common, g.temp, func(temp string) (*view, error) {
		return g.openViewIn(temp, dir, common, gitDir, withFiles, info, commonInfo)
	})
}

// withFallbackDir calls open with the directory for temporary files or, if the disk of that directory is full, with a directory on the disk
// of the repository. So a full disk does not lose commits for which the repository has space.
func withFallbackDir(common, temp string, open func(temp string) (*view, error)) (*view, error) {
	v, err := open(temp)
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return v, err
	}
	dir := tempDir(common)
	if ownerOf(common).mkdirAll(dir) != nil {
		return nil, err
	}
	other, oerr := scratch.Open(dir)
	if oerr != nil {
		return nil, err
	}
	if v, err = open(other.Path()); err != nil {
		return nil, errors.Join(err, other.Close())
	}
	v.fallbackDir = other
	return v, nil
}

// openViewIn creates the view below temp for openView.
func (g *Git) openViewIn(temp, dir, common, gitDir string, withFiles bool, info, commonInfo gitfiles.Info) (*view, error) {
	v, err := g.newView(temp, dir, gitDir, withFiles)
	if err != nil {
		return nil, err
	}
	v.alwaysPacks = slices.ContainsFunc(commonInfo.Settings, isSharedRepository) // the sandbox prevents git from setting the group of new directories
	v.policy.Write = append(v.policy.Write, existingPaths(filepath.Join(common, "objects"), filepath.Join(common, "lfs"))...)
	if ownerOf(dir) != nil {
		v.policy.Override = true
		v.alwaysPacks = true // the owner can remove packs of root, but no objects in directories of root
	}
	v.policy.Read = slices.Concat(v.policy.Read, []string{dir, common, gitDir}, withAlternates(filepath.Join(common, "objects")))
	err = v.symlink(common, sharedParts)
	if err == nil {
		err = v.fill(common, gitDir, viewConfig(commonInfo.Settings, !withFiles), "", info)
	}
	if err != nil {
		v.close()
		return nil, fmt.Errorf("view of the repository of %s: %w", dir, err)
	}
	return v, nil
}

// newView creates the directory of a view, below temp. The view's policy lets git write only this directory. If withFiles is set, git uses
// dir as its working tree, and the index in gitDir.
func (g *Git) newView(temp, dir, gitDir string, withFiles bool) (*view, error) {
	tmp, err := os.MkdirTemp(temp, "git-*")
	if err == nil {
		tmp, err = filepath.EvalSymlinks(tmp) // a sandbox accepts no link in a path that may be written
	}
	if err != nil {
		return nil, err
	}
	v := &view{git: g, gitDir: tmp, dir: dir, env: []string{"GIT_DIR=" + tmp, "GIT_NO_REPLACE_OBJECTS=1"}}
	if withFiles {
		v.env = append(v.env, "GIT_WORK_TREE="+dir, "GIT_INDEX_FILE="+filepath.Join(gitDir, "index"))
	}
	v.policy = &sandbox.Policy{Write: []string{tmp}, Read: slices.Concat(sandbox.SystemPaths(), g.configPaths()), Network: sandbox.Offline, Limits: g.limits()}
	return v, nil
}

// existingPaths returns the paths that exist.
func existingPaths(paths ...string) []string {
	return slices.DeleteFunc(paths, func(path string) bool {
		_, err := os.Stat(path)
		return err != nil
	})
}

// symlink creates symbolic links in the view to the named parts of a git directory. The parts need not exist.
func (v *view) symlink(gitDir string, names []string) error {
	for _, name := range names {
		if err := os.Symlink(filepath.Join(gitDir, name), filepath.Join(v.gitDir, name)); err != nil {
			return err
		}
	}
	return nil
}

// usableHeadPattern matches a HEAD that names a ref or a commit.
var usableHeadPattern = regexp.MustCompile(`^(ref:\s*refs/\S+|[0-9a-f]{40,64})\s*$`)

// fill completes the view with its configuration, and with files of the common git directory and of gitDir, which info
// describes. The view gets info/exclude and info/attributes, but not info/grafts, which would change the history. If gitDir has no usable
// HEAD and branch is set, the view's HEAD names branch.
func (v *view) fill(common, gitDir, config, branch string, info gitfiles.Info) error {
	v.info = info
	if err := os.Mkdir(filepath.Join(v.gitDir, "info"), 0o700); err != nil {
		return err
	}
	if err := v.symlink(common, []string{"info/exclude", "info/attributes"}); err != nil {
		return err
	}
	for _, part := range info.SharedIndexes { // the parts of a split index
		if part = filepath.Base(part); !strings.HasPrefix(part, "sharedindex.") {
			continue
		}
		if err := os.Symlink(filepath.Join(gitDir, part), filepath.Join(v.gitDir, part)); err != nil {
			return err
		}
	}
	v.headContent = info.Head
	if branch != "" && !usableHeadPattern.MatchString(v.headContent) {
		v.headContent = "ref: " + branch
	}
	if err := os.WriteFile(filepath.Join(v.gitDir, "HEAD"), []byte(v.headContent+"\n"), 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(v.gitDir, "config"), []byte(config), 0o600)
}

// isSharedRepository reports whether the setting is core.sharedRepository.
func isSharedRepository(s gitfiles.Setting) bool {
	return s.Section == "core" && s.Name == "sharedrepository"
}

// viewConfig returns the configuration of a view, with the plain settings among the given ones.
func viewConfig(settings []gitfiles.Setting, bare bool) string {
	var b strings.Builder
	for _, s := range settings {
		if s.IsPlain() {
			fmt.Fprintf(&b, "[%s]\n\t%s = %s\n", s.Section, s.Name, s.Value)
		}
	}
	fmt.Fprintf(&b, "[core]\n\tbare = %t\n", bare)
	return b.String()
}

// run runs git in the view, and returns its output without the space around it.
func (v *view) run(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	if err := v.pipe(ctx, nil, &out, args...); err != nil {
		return "", err
	}
	return strings.TrimSpace(out.String()), nil
}

// pipe works like run, with an input and an output. The input may be nil. If the output is a buffer, maxOutput bytes are an error.
func (v *view) pipe(ctx context.Context, in io.Reader, out io.Writer, args ...string) error {
	if b, ok := out.(*bytes.Buffer); ok {
		out = &limitedWriter{to: b}
		err := v.git.pipe(ctx, v.policy, v.env, v.dir, in, out, args...)
		if b.Len() >= maxOutput && ctx.Err() == nil {
			return &Error{Message: fmt.Sprintf("git %s lists more than %d MiB", args[0], maxOutput>>20)}
		}
		return err
	}
	return v.git.pipe(ctx, v.policy, v.env, v.dir, in, out, args...)
}

// maxOutput limits an output of git that the server keeps in memory, in bytes. A few small objects of an agent can describe
// millions of paths.
const maxOutput = 32 << 20

// limitedWriter passes on the first maxOutput bytes. Then Write returns an error, which ends git.
type limitedWriter struct{ to *bytes.Buffer }

func (l *limitedWriter) Write(p []byte) (int, error) {
	if room := maxOutput - l.to.Len(); len(p) >= room {
		l.to.Write(p[:room])
		return room, io.ErrShortWrite
	}
	return l.to.Write(p)
}

func (v *view) close() {
	_ = os.RemoveAll(v.gitDir)
	if v.fallbackDir != nil {
		_ = v.fallbackDir.Close()
	}
}
