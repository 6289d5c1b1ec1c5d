package worktree

import (
	"context"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// ref is a ref of a repository.
type ref struct {
	oid      string
	to       string // the ref that it stands for, if it is symbolic
	occupied bool   // a working tree has it checked out
}

// refSet are refs by their full names.
type refSet map[string]ref

// refFormat is how for-each-ref describes a ref.
const refFormat = "--format=%(objectname)%00%(refname)%00%(symref)%00%(worktreepath)"

// parseRefs reads the output of for-each-ref.
func parseRefs(out string) refSet {
	set := refSet{}
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\x00")
		if len(f) == 4 && oidPattern.MatchString(f[0]) {
			set[f[1]] = ref{oid: f[0], to: f[2], occupied: f[3] != ""}
		}
	}
	return set
}

var oidPattern = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// refs returns the refs of the repository that agents get, and those of the agent.
func (g *Git) refs(ctx context.Context, t Tree) (refSet, error) {
	// It looks at no object, so that the repository's own configuration does no harm.
	out, err := g.run(ctx, t.Repository, "for-each-ref", refFormat, "refs/heads", "refs/remotes", "refs/tags", AgentRefs(t.UID))
	if err != nil {
		return nil, err
	}
	return parseRefs(out + "\n"), nil
}

// given returns the refs that the agent gets: all but its own.
func (s refSet) given(uid string) map[string]string {
	all := map[string]string{}
	for name, r := range s {
		if r.to == "" && !strings.HasPrefix(name, AgentRefs(uid)) {
			all[name] = r.oid
		}
	}
	return all
}

// oids returns each object that a ref names, once.
func (s refSet) oids() []string {
	all := map[string]bool{}
	for _, r := range s {
		all[r.oid] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// special are names that stand for something in every repository: files such as HEAD, and abbreviated objects.
var special = regexp.MustCompile(`^([A-Z_-]+|[0-9a-fA-F]{4,64}|-.*|refs/.*)$`)

// free reports whether the repository has nothing that the name stands for, and could have a branch of that name.
func (s refSet) free(name string) bool {
	if special.MatchString(name) {
		return false
	}
	for _, taken := range []string{"refs/", "refs/tags/", "refs/heads/", "refs/remotes/"} {
		if _, ok := s[taken+name]; ok {
			return false
		}
	}
	for other := range s {
		rest, ok := strings.CutPrefix(other, "refs/remotes/")
		if ok && (rest == name || strings.HasPrefix(rest, name+"/")) {
			return false
		}
		if strings.HasPrefix(other, "refs/heads/"+name+"/") {
			return false
		}
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, ok := s["refs/heads/"+dir]; ok {
			return false
		}
	}
	return true
}

// update is one change of a ref. Without a new value it is deleted; old is the value that it must have, if it is known.
type update struct{ name, oid, old string }

// updateRefs makes all changes in the repository, or none of them. It is not cut off: git can leave a lock behind then.
func (g *Git) updateRefs(ctx context.Context, repository string, all ...update) error {
	if len(all) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	defer g.lock(repository)()
	return g.pipe(context.WithoutCancel(ctx), nil, nil, repository, strings.NewReader(updates(all)), io.Discard, "update-ref", "--no-deref", "-m", "fleet: work of an agent", "--stdin")
}

// updates is what update-ref reads.
func updates(all []update) string {
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
