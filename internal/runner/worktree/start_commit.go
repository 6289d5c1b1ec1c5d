package worktree

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fleet/internal/runner/gitfiles"
)

// startCommit returns the commit at which a new branch starts. name is a branch, a tag or a commit. If name is empty, the new
// branch starts at the default branch of a mirror or, in any other repository, at HEAD. If these do not exist, it
// starts at the only branch. refs are the refs of the repository.
func (g *Git) startCommit(ctx context.Context, repository, name string, refs refSet) (string, error) {
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
	v, err := g.openRepository(repository)
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
			c, _ = strings.CutPrefix(v.headContent, "ref: ")
		}
		if refs[c].oid != "" || refs["refs/heads/"+c].oid != "" || refs["refs/tags/"+c].oid != "" || gitfiles.IsOID(c) {
			return "", &Error{Message: "git cannot read the commit of " + c + " in the repository: look for damage with git fsck"}
		}
	}
	if name != "" {
		return "", &Error{Message: "the repository has no branch, tag or commit \"" + name + "\": correct the project's branch"}
	}
	return v.onlyBranch(ctx, refs)
}

// commitOf returns the commit of the first revision that names a commit. It returns an empty text if none does.
func (v *view) commitOf(ctx context.Context, revisions ...string) (string, error) {
	var out bytes.Buffer
	in := strings.NewReader(strings.Join(revisions, "^{commit}\n") + "^{commit}\n")
	if err := v.pipe(ctx, in, &out, "cat-file", "--batch-check=%(objectname)"); err != nil {
		return "", err
	}
	for line := range strings.Lines(out.String()) {
		if oid := strings.TrimSpace(line); gitfiles.IsOID(oid) {
			return oid, nil
		}
	}
	return "", nil
}

// maxListedBranches limits how many branches an error names.
const maxListedBranches = 10

// onlyBranch returns the commit of the repository's only branch, for a repository whose HEAD names a branch that does
// not exist. Branches below fleet/ do not count. It fails if there is not exactly one branch.
func (v *view) onlyBranch(ctx context.Context, refs refSet) (string, error) {
	var names, revisions []string
	for _, full := range slices.Sorted(maps.Keys(refs)) {
		name, local := strings.CutPrefix(full, "refs/heads/")
		name, remote := strings.CutPrefix(name, "refs/remotes/origin/")
		if (local || remote) && refs[full].target == "" && !strings.HasPrefix(name, "fleet/") {
			names, revisions = append(names, name), append(revisions, full)
		}
	}
	switch head, _ := strings.CutPrefix(v.headContent, "ref: refs/heads/"); {
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
