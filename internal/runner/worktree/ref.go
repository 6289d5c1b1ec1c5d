package worktree

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"

	"fleet/internal/runner/gitfiles"
)

// ref is the state of a ref of a repository.
type ref struct {
	oid        string // the object that it names
	target     string // the target of a symbolic ref; otherwise empty
	checkedOut bool   // the ref is checked out in a working tree
}

// refSet contains refs by their full names, such as refs/heads/main.
type refSet map[string]ref

// refFormat is the output format for for-each-ref.
const refFormat = "--format=%(objectname)%00%(refname)%00%(symref)%00%(worktreepath)"

// parseRefs parses the output of for-each-ref.
func parseRefs(out string) refSet {
	set := refSet{}
	for line := range strings.Lines(out) {
		if name, r := parseRef(strings.TrimSuffix(line, "\n")); name != "" {
			set[name] = r
		}
	}
	return set
}

// parseRef parses a line of for-each-ref. The name is empty if the line is not valid.
func parseRef(line string) (name string, r ref) {
	f := strings.Split(line, "\x00")
	if len(f) != 4 || !gitfiles.IsOID(f[0]) {
		return "", ref{}
	}
	return f[1], ref{oid: f[0], target: f[2], checkedOut: f[3] != ""}
}

// refs returns the branches, remote-tracking branches and tags of the tree's repository, and the refs that Fleet stores for
// the agent.
func (g *Git) refs(ctx context.Context, t Tree) (refSet, error) {
	// With this format, for-each-ref reads no objects. So git runs no program from the repository's configuration.
	out, err := g.run(ctx, t.Repository, "for-each-ref", refFormat, "refs/heads", "refs/remotes", "refs/tags", agentRefPrefix(t.UID))
	if err != nil {
		return nil, err
	}
	return parseRefs(out + "\n"), nil
}

// refsForAgent returns the refs that the agent gets, with their objects: all except symbolic refs and the refs that Fleet stores for
// the agent.
func (s refSet) refsForAgent(uid string) map[string]string {
	all := map[string]string{}
	for name, r := range s {
		if r.target == "" && !strings.HasPrefix(name, agentRefPrefix(uid)) {
			all[name] = r.oid
		}
	}
	return all
}

// oids returns the object ids that the refs name, sorted, each once.
func (s refSet) oids() []string {
	all := map[string]bool{}
	for _, r := range s {
		all[r.oid] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// refChange is one change of a ref. An empty oid deletes the ref. old is the expected value of the ref: zeros if the ref must not
// exist, or empty if any value is accepted.
type refChange struct{ name, oid, old string }

// updateRefs makes all changes in the repository, or none of them. Once it has begun, it ignores cancellation, because an
// interrupted git could leave a lock behind.
func (g *Git) updateRefs(ctx context.Context, repository string, all ...refChange) error {
	return g.updateRefsWithMessage(ctx, repository, "fleet: work of an agent", all...)
}

// updateRefsWithMessage works like updateRefs, with a message for the logs of the refs.
func (g *Git) updateRefsWithMessage(ctx context.Context, repository, message string, all ...refChange) error {
	if len(all) == 0 {
		return nil
	}
	unlock, err := g.lock(ctx, repository)
	if err != nil {
		return err
	}
	defer unlock()
	return g.pipe(context.WithoutCancel(ctx), nil, nil, repository, strings.NewReader(refChangeInput(all)), io.Discard, "update-ref", "--no-deref", "-m", message, "--stdin")
}

// refChangeInput returns the input for update-ref.
func refChangeInput(all []refChange) string {
	var b strings.Builder
	for _, u := range all {
		verb := "update"
		if u.oid == "" {
			verb = "delete"
		}
		b.WriteString(strings.Join(slices.DeleteFunc([]string{verb, u.name, u.oid, u.old}, func(s string) bool { return s == "" }), " ") + "\n")
	}
	return b.String()
}
