package worktree

import (
	"bytes"
	"context"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"fleet/internal/fleet"
)

// pushRequest describes the push of one commit to a branch of another repository.
type pushRequest struct {
	repository string // the repository that has the commit
	remote     string // the remote whose tracking branches show which commits the other repository has
	url        string
	branch     string
	commit     string
	lease      string // the commit at which the branch must be now; empty: any commit in the history of the pushed one
}

// Push writes the commit to a branch of another repository: see fleet.Repository. If the repository is a mirror, source is the URL
// that it mirrors, and the commit is pushed there. Otherwise source is empty.
func (g *Git) Push(ctx context.Context, repository, source string, p fleet.Push) (fleet.PushResult, error) {
	name, to := "origin", source
	if source == "" {
		var err error
		if name, to, err = g.remote(ctx, repository, p.Remote); err != nil {
			return fleet.PushResult{}, err
		}
	} else if p.Remote != "" && p.Remote != name {
		return fleet.PushResult{}, fleet.Errorf(fleet.ReasonRemoteNotFound, "the repository has no remote %q: it has origin", fleet.Shorten(p.Remote, 100))
	}
	if err := g.RequireCommit(ctx, repository, p.Commit); err != nil {
		return fleet.PushResult{}, err
	}
	if !validBranchPattern.MatchString(p.Branch) || strings.Contains(p.Branch, "..") {
		return fleet.PushResult{}, fleet.InvalidField("branch", "%q is not a name of a branch", fleet.Shorten(p.Branch, 100))
	}
	if err := g.push(ctx, pushRequest{repository: repository, remote: name, url: to, branch: p.Branch, commit: p.Commit}); err != nil {
		return fleet.PushResult{}, err
	}
	tracking := refChange{name: "refs/remotes/" + name + "/" + p.Branch, oid: p.Commit}
	if err := g.updateRefs(context.WithoutCancel(ctx), repository, tracking); err != nil && source != "" {
		return fleet.PushResult{}, err // only for a mirror: people may have configured other tracking branches in their repositories
	}
	plain, _ := withoutPassword(to)
	return fleet.PushResult{Remote: name, URL: Scrub(plain)}, nil
}

// validBranchPattern matches texts that can be names of branches. git checks the other rules.
var validBranchPattern = regexp.MustCompile(`^[^\x00-\x20\x7f~^:?*\[\\/.-][^\x00-\x20\x7f~^:?*\[\\]*$`)

// remote returns the name and the URL of a remote of the repository. An empty name selects the only remote or, if there are several,
// origin. The error is REMOTE_NOT_FOUND if there is no such remote.
func (g *Git) remote(ctx context.Context, repository, name string) (remoteName, url string, err error) {
	out, err := g.run(ctx, repository, "remote")
	if err != nil {
		return "", "", err
	}
	names := strings.Fields(out)
	switch {
	case name == "" && len(names) == 1:
		name = names[0]
	case name == "":
		name = "origin"
	}
	if !slices.Contains(names, name) {
		list := "it has none"
		if len(names) > 0 {
			list = "it has " + strings.Join(names, ", ")
		}
		return "", "", fleet.Errorf(fleet.ReasonRemoteNotFound, "the repository has no remote %q: %s", fleet.Shorten(name, 100), list)
	}
	url, err = g.run(ctx, repository, "remote", "get-url", "--push", "--", name)
	if err == nil && !IsRemote(url) && !filepath.IsAbs(url) { // relative to the repository
		url = filepath.Join(repository, url)
	}
	return name, url, err
}

// push pushes the commit, and first its Git LFS files. It runs no program that the repository configures: neither the pre-push hook
// nor a program that signs the push.
func (g *Git) push(ctx context.Context, p pushRequest) error {
	v, err := g.openRepository(p.repository)
	if err != nil {
		return err
	}
	defer v.close()
	v.policy = nil // git needs the network and the user's keys
	plain, env := withoutPassword(p.url)
	v.env = append(v.env, env...)
	if err := v.uploadLFS(ctx, p, plain); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return scrubSecrets(err, env)
	}
	args := []string{"push", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no"}
	if p.lease != "" {
		args = append(args, "--force-with-lease=refs/heads/"+p.branch+":"+p.lease)
	}
	var out bytes.Buffer
	err = v.pipe(ctx, nil, &out, append(args, "--", plain, p.commit+":refs/heads/"+p.branch)...)
	if err == nil || ctx.Err() != nil {
		return err
	}
	for _, why := range []string{"(non-fast-forward)", "(fetch first)", "(stale info)", "(cannot lock ref", "(incorrect old value"} {
		if strings.Contains(out.String(), why) {
			return fleet.Errorf(fleet.ReasonBranchMoved, "the branch %q of %s has commits that the pushed one does not have", p.branch, Scrub(plain))
		}
	}
	if m := refusedPushPattern.FindStringSubmatch(out.String()); m != nil {
		return fleet.Errorf(fleet.ReasonPushRefused, "%s refused the branch %q: %s", Scrub(plain), p.branch, m[1]).With("branch", p.branch)
	}
	return scrubSecrets(err, env)
}

// refusedPushPattern matches the line about a branch that the other repository has refused.
var refusedPushPattern = regexp.MustCompile(`(?m)^!\t.*\[(?:remote )?rejected\] \((.*)\)`)

// scrubSecrets returns an *Error with the error's message, in which it hides the values of the variables.
func scrubSecrets(err error, env []string) error {
	text := err.Error()
	for _, v := range env {
		if _, value, _ := strings.Cut(v, "="); len(value) >= minSecret {
			text = strings.ReplaceAll(text, value, "***")
		}
	}
	return &Error{Message: text}
}

// minSecret is the minimum length, in bytes, of a value that scrubSecrets hides.
const minSecret = 6

// RemoteURL returns the URL or the path of the only remote of the repository, or of origin.
func (g *Git) RemoteURL(ctx context.Context, repository string) (string, error) {
	_, to, err := g.remote(ctx, repository, "")
	if err == nil && !IsRemote(to) {
		to = filepath.Clean(to)
	}
	return to, err
}
