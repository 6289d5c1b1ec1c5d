package worktree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

var scpPattern = regexp.MustCompile(`^[A-Za-z0-9._-]+(@[A-Za-z0-9._-]+)?:[^\\]`)

// IsRemote reports whether the source is a URL, also with file://, or host:path. Fleet makes a mirror of such a source.
func IsRemote(source string) bool {
	return strings.Contains(source, "://") || (scpPattern.MatchString(source) && !filepath.IsAbs(source))
}

// MirrorPath returns the path of the source's mirror below dir.
func MirrorPath(dir, source string) string {
	sum := sha256.Sum256([]byte(source))
	name := strings.TrimSuffix(source[strings.LastIndexAny(source, "/:")+1:], ".git")
	name = regexp.MustCompile(`[^A-Za-z0-9._-]+`).ReplaceAllString(name, "-")
	return filepath.Join(dir, name+"-"+hex.EncodeToString(sum[:4])+".git")
}

// Fetch updates the mirror from the source, and creates the mirror if it does not exist. It does not change the agents'
// branches, because it stores the branches of the source as remote branches. Later calls for agents of the mirror use the
// password of the source.
func (g *Git) Fetch(ctx context.Context, source, mirror string) error {
	defer g.lock(mirror)()
	g.sources.Store(mirror, source)
	if _, err := os.Stat(mirror); errors.Is(err, os.ErrNotExist) {
		if err := g.clone(ctx, source, mirror); err != nil {
			return err
		}
	}
	v, err := g.view(mirror, false)
	if err != nil {
		return err
	}
	defer v.close()
	v.policy = nil // git needs the network and the user's keys
	plain, env := withoutPassword(source)
	v.env = append(v.env, env...)
	if _, err := v.run(ctx, "remote", "add", "origin", plain); err != nil {
		return err
	}
	if _, err := v.run(ctx, "fetch", "--prune", "--quiet", "--no-recurse-submodules", "origin"); err != nil {
		return err
	}
	// A missing default branch in the source does not matter if the project names a branch.
	_, _ = v.run(ctx, "remote", "set-head", "origin", "--auto")
	return ctx.Err()
}

// clone creates the mirror atomically.
func (g *Git) clone(ctx context.Context, source, mirror string) error {
	if err := os.MkdirAll(filepath.Dir(mirror), 0o700); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(g.temp, "clone-*")
	if err != nil {
		return err
	}
	defer func() { _ = RemoveAll(tmp) }()
	plain, env := withoutPassword(source)
	for _, args := range [][]string{
		{"init", "--quiet", "--bare"},
		{"fetch", "--quiet", plain, "+refs/heads/*:refs/remotes/origin/*"},
	} {
		if _, err := g.runWith(ctx, env, tmp, args...); err != nil {
			return err
		}
	}
	if err := addOrigin(tmp, source); err != nil {
		return err
	}
	return os.Rename(tmp, mirror)
}

// Check returns an error if the directory is not a repository that this process can write, or if it stores its refs in a
// format that Fleet cannot read.
func (g *Git) Check(ctx context.Context, dir string) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return &Error{Message: "there is no directory " + dir}
	}
	if _, err := g.run(ctx, dir, "rev-parse", "--git-common-dir"); err != nil {
		return err
	}
	if g.Setting(ctx, dir, "extensions.refStorage") == "reftable" {
		return &Error{Message: "the repository stores its branches as a reftable, which Fleet cannot read: convert it with git refs migrate --ref-format=files, or let Fleet copy it with the URL file://" + dir}
	}
	common := commonDir(dir)
	for _, sub := range existingPaths(filepath.Join(common, "objects"), filepath.Join(common, "refs"), filepath.Join(common, "refs", "heads")) {
		if err := unix.Access(sub, unix.W_OK|unix.X_OK); err != nil {
			return &Error{Message: fmt.Sprintf("cannot write to %s (%v), so no work of agents could be collected: make it writable, or let Fleet copy the repository with the URL file://%s", sub, err, dir)}
		}
	}
	return nil
}

// Setting returns a setting that git uses in the repository, from the configuration of the repository, the user or the system. The
// value of a key that ends with gpgSign is "true" or "false". The result is empty if the setting does not exist or cannot be read.
func (g *Git) Setting(ctx context.Context, repository, key string) string {
	args := []string{"config", "--get", key}
	if strings.HasSuffix(key, "gpgSign") {
		args = []string{"config", "--type=bool", "--get", key}
	}
	value, _ := g.run(ctx, repository, args...)
	return value
}

// AgentBranch returns the name for the branch of an agent with the label. The name is fleet/label, or fleet-label if the repository or
// one of its remotes has a branch named fleet: a repository cannot have both fleet and fleet/label.
func (g *Git) AgentBranch(ctx context.Context, repository, label string) (string, error) {
	have, err := g.refs(ctx, Tree{Repository: repository})
	if err != nil {
		return "", err
	}
	for name := range have {
		if name == "refs/heads/fleet" || strings.HasPrefix(name, "refs/remotes/") && path.Base(name) == "fleet" {
			return "fleet-" + label, nil
		}
	}
	return "fleet/" + label, nil
}

// startCommit returns the commit at which a new branch starts. name is a branch, a tag or a commit. If name is empty, the new
// branch starts at the default branch of a mirror or, in any other repository, at HEAD. If these do not exist either, it
// starts at the only branch. have contains the repository's refs.
func (g *Git) startCommit(ctx context.Context, repository, name string, have refSet) (string, error) {
	bare, err := g.run(ctx, repository, "rev-parse", "--is-bare-repository")
	if err != nil {
		return "", err
	}
	candidates := []string{"HEAD"} // the commit that people have checked out there
	switch {
	case name != "" && bare == "true":
		candidates = []string{"refs/remotes/origin/" + name, name}
	case name != "":
		candidates = []string{name, "refs/remotes/origin/" + name}
	case bare == "true":
		candidates = []string{"refs/remotes/origin/HEAD", "HEAD"}
	}
	v, err := g.view(repository, false)
	if err != nil {
		return "", err
	}
	defer v.close()
	commit, err := v.commitOf(ctx, candidates...)
	if err != nil || commit != "" {
		return commit, err
	}
	for _, c := range candidates {
		if c == "HEAD" {
			c, _ = strings.CutPrefix(v.head, "ref: ")
		}
		if have[c].oid != "" || have["refs/heads/"+c].oid != "" || have["refs/tags/"+c].oid != "" || oidPattern.MatchString(c) {
			return "", &Error{Message: "git cannot read the commit of " + c + " in the repository: look for damage with git fsck"}
		}
	}
	if name != "" {
		return "", &Error{Message: "the repository has no branch, tag or commit \"" + name + "\": correct the project's branch"}
	}
	return v.onlyBranch(ctx, have)
}

// commitOf returns the commit of the first revision that names a commit. It returns an empty text if none does.
func (v *view) commitOf(ctx context.Context, revisions ...string) (string, error) {
	var out bytes.Buffer
	in := strings.NewReader(strings.Join(revisions, "^{commit}\n") + "^{commit}\n")
	if err := v.pipe(ctx, in, &out, "cat-file", "--batch-check=%(objectname)"); err != nil {
		return "", err
	}
	for line := range strings.Lines(out.String()) {
		if oid := strings.TrimSpace(line); oidPattern.MatchString(oid) {
			return oid, nil
		}
	}
	return "", nil
}

// maxListedBranches limits how many branches an error names.
const maxListedBranches = 10

// onlyBranch returns the commit of the repository's only branch, for a repository whose HEAD names a branch that does
// not exist. Branches below fleet/ do not count. It fails if there is not exactly one branch.
func (v *view) onlyBranch(ctx context.Context, have refSet) (string, error) {
	var names, revisions []string
	for _, full := range slices.Sorted(maps.Keys(have)) {
		name, local := strings.CutPrefix(full, "refs/heads/")
		name, remote := strings.CutPrefix(name, "refs/remotes/origin/")
		if (local || remote) && have[full].target == "" && !strings.HasPrefix(name, "fleet/") {
			names, revisions = append(names, name), append(revisions, full)
		}
	}
	switch head, _ := strings.CutPrefix(v.head, "ref: refs/heads/"); {
	case len(names) == 0:
		return "", &Error{Message: "the repository has no commit: make one, or set the project's branch"}
	case len(names) > 1:
		if len(names) > maxListedBranches {
			names = append(names[:maxListedBranches], "...")
		}
		return "", &Error{Message: fmt.Sprintf("HEAD of the repository names the branch %q, which does not exist: set the project's branch to one of %s", head, strings.Join(names, ", "))}
	}
	commit, err := v.commitOf(ctx, revisions...)
	if err == nil && commit == "" {
		err = &Error{Message: "git cannot read the commit of " + revisions[0] + " in the repository: look for damage with git fsck"}
	}
	return commit, err
}
