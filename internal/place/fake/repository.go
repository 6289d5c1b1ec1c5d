package fake

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fleet/internal/fleet"
)

// repository is the repository of a project. It has one branch, main. The id of a commit names the tasks whose work is in it.
type repository struct {
	place   *Place
	project string
}

// commit is a commit of a repository. The world's mutex guards it.
type commit struct {
	files   map[string]string
	parents []string
}

// Repository returns the repository of the project. It returns UNIMPLEMENTED if the place does not support changes.
func (p *Place) Repository(project string) (fleet.Repository, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.ContainsFunc(p.projects, func(proj Project) bool { return proj.Name == project }) {
		return nil, fleet.Errorf(fleet.ReasonProjectNotFound, "there is no project %q", project)
	}
	if !p.config.Traits.SupportsChanges {
		return nil, fleet.Errorf(fleet.ReasonUnimplemented, "the agents of the project %q do not work in a repository", project)
	}
	if p.mainCommits[project] == "" {
		p.mainCommits[project] = "main-0"
		p.commits["main-0"] = &commit{files: map[string]string{}}
	}
	return repository{p, project}, nil
}

// Collect returns CHANGES_NOT_FOUND if no run has made the commit.
func (r repository) Collect(_ context.Context, _ fleet.Agent, c fleet.Changes) error {
	r.place.mu.Lock()
	defer r.place.mu.Unlock()
	if r.place.runs[taskOf(c.Commit)] == nil {
		return fleet.Errorf(fleet.ReasonChangesNotFound, "the repository no longer has the commit %s", c.Commit)
	}
	return nil
}

// Branch returns the branch main.
func (r repository) Branch(_ context.Context, name string) (fleet.Branch, error) {
	r.place.mu.Lock()
	defer r.place.mu.Unlock()
	if name != "" && name != "main" {
		return fleet.Branch{}, fleet.Errorf(fleet.ReasonBranchNotFound, "the project %q has no branch %q", r.project, name).With("branch", name).With("project", r.project)
	}
	return fleet.Branch{Name: "main", Commit: r.place.mainCommits[r.project]}, nil
}

// Contains reports whether older is the commit id or one of its ancestors.
func (r repository) Contains(_ context.Context, id, older string) (bool, error) {
	r.place.mu.Lock()
	defer r.place.mu.Unlock()
	for todo := []string{id}; len(todo) > 0; todo = todo[1:] {
		if todo[0] == older {
			return true, nil
		}
		if c := r.place.commits[todo[0]]; c != nil {
			todo = append(todo, c.parents...)
		}
	}
	return false, nil
}

// filesOf returns the content of the files that the run that made the commit head has written, by path. The caller holds the world's mutex.
func (r repository) filesOf(head string) map[string]string {
	files := map[string]string{}
	if run := r.place.runs[taskOf(head)]; run != nil {
		for path, patch := range run.patch {
			_, lines, _ := strings.Cut(patch, "\n")
			files[path] = strings.ReplaceAll("\n"+lines, "\n+", "\n")[1:]
		}
	}
	return files
}

// Combine makes a commit with the files of the commit c.Onto and of the work. A file is in conflict unless one of the two versions
// begins with the other. The hunks of a conflict are instructions that resolve it.
func (r repository) Combine(_ context.Context, c fleet.Combination) (fleet.CombineResult, error) {
	p := r.place
	p.mu.Lock()
	defer p.mu.Unlock()
	onto := p.commits[c.Onto]
	files, work := maps.Clone(onto.files), r.filesOf(c.Head)
	combined := fleet.CombineResult{Base: c.Since}
	for _, path := range slices.Sorted(maps.Keys(work)) {
		if !strings.HasPrefix(work[path], files[path]) && !strings.HasPrefix(files[path], work[path]) {
			conflict := fleet.Conflict{Path: path, Kind: "content"}
			for line := range strings.Lines(files[path] + work[path]) {
				conflict.Hunks += fixPrefix + "change " + path + " " + line
			}
			conflict.Hunks += fixPrefix + "done\n"
			combined.Conflicts = append(combined.Conflicts, conflict)
			continue
		}
		files[path] = max(files[path], work[path]) // the longer one
	}
	switch {
	case len(combined.Conflicts) > 0:
	case maps.Equal(files, onto.files):
		combined.Commit = c.Onto
	default:
		combined.Commit = fmt.Sprintf("%s+%s", c.Onto, taskOf(c.Head))
		newCommit := &commit{files, []string{c.Onto}}
		if c.Strategy == fleet.Merge {
			newCommit.parents = append(newCommit.parents, c.Head)
		}
		p.commits[combined.Commit] = newCommit
	}
	return combined, nil
}

// Overlaps reports, for each pair of contributions, the files that both write, as if all their lines overlapped.
func (r repository) Overlaps(_ context.Context, _ string, all []fleet.Contribution) (overlaps []fleet.WorkOverlap, err error) {
	r.place.mu.Lock()
	defer r.place.mu.Unlock()
	for i, a := range all {
		for _, b := range all[i+1:] {
			o := fleet.WorkOverlap{A: a.Name, B: b.Name}
			aFiles, bFiles := r.filesOf(a.Head), r.filesOf(b.Head)
			for _, path := range slices.Sorted(maps.Keys(aFiles)) {
				if content, both := bFiles[path]; both {
					o.Files = append(o.Files, fleet.OverlapFile{Path: path, Lines: [][2]int{{0, 0}}})
					o.Conflict = o.Conflict || content != aFiles[path]
				}
			}
			if len(o.Files) > 0 {
				overlaps = append(overlaps, o)
			}
		}
	}
	return overlaps, nil
}

// Check runs the command on the files of the commit, see runCommand. It does not wait. A repeated check returns the first result.
func (r repository) Check(_ context.Context, id string, c fleet.Check) (fleet.CheckResult, error) {
	p := r.place
	p.mu.Lock()
	defer p.mu.Unlock()
	key := [3]string{id, c.ID, c.Command}
	if earlierResult, found := p.commitChecks[key]; found {
		return earlierResult, nil
	}
	command, repair, _ := strings.Cut(c.Command, fixPrefix)
	result := runCommand(command, func(path string) bool {
		_, has := p.commits[id].files[path]
		return has
	}, func(string, string) fleet.CheckStatus { return fleet.CheckPassed })
	result.Command, result.StartedAt, result.EndedAt = c.Command, p.config.Now(), p.config.Now()
	if repair != "" && result.Status == fleet.CheckFailed {
		result.Output += fixPrefix + strings.TrimSpace(repair) + "\n" + fixPrefix + "done\n"
	}
	p.commitChecks[key] = result
	return result, nil
}

// Move moves the branch, unless it is protected or is no longer at the commit in b.
func (r repository) Move(_ context.Context, b fleet.Branch, to string) error {
	r.place.mu.Lock()
	defer r.place.mu.Unlock()
	if r.place.protected {
		return fleet.Errorf(fleet.ReasonPushRefused, "the branch %s is protected", b.Name).With("branch", b.Name)
	}
	if r.place.mainCommits[r.project] != b.Commit {
		return fleet.Errorf(fleet.ReasonBranchMoved, "the branch %s has moved", b.Name).With("branch", b.Name)
	}
	r.place.mainCommits[r.project] = to
	return nil
}

// Push accepts every push to the remote origin, which is the only remote.
func (r repository) Push(_ context.Context, p fleet.Push) (fleet.PushResult, error) {
	if p.Remote != "" && p.Remote != "origin" {
		return fleet.PushResult{}, fleet.Errorf(fleet.ReasonRemoteNotFound, "the repository has no remote %q", p.Remote).With("remote", p.Remote).With("project", r.project)
	}
	return fleet.PushResult{Remote: "origin", URL: "https://example.com/" + r.project + ".git"}, nil
}
