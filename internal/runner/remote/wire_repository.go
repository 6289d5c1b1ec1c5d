package remote

import (
	runnerv1 "fleet/gen/fleet/runner/v1"
	"fleet/internal/fleet"
)

// Limits for a runner's report about overlapping work. The client enforces them, because an agent can replace its runner.
const (
	maxOverlaps     = 10_000 // pairs
	maxOverlapFiles = 1000   // files of a pair
	maxOverlapLines = 2000   // line numbers of a file; each place has two
)

func contributionToProto(c fleet.Contribution) *runnerv1.Contribution {
	return &runnerv1.Contribution{Name: c.Name, Head: c.Head, Since: c.Since}
}

func contributionFromProto(p *runnerv1.Contribution) fleet.Contribution {
	return fleet.Contribution{Name: p.GetName(), Head: p.GetHead(), Since: p.GetSince()}
}

func contributionsToProto(all []fleet.Contribution) (list []*runnerv1.Contribution) {
	for _, c := range all {
		list = append(list, contributionToProto(c))
	}
	return list
}

func contributionsFromProto(list []*runnerv1.Contribution) (all []fleet.Contribution) {
	for _, p := range list {
		all = append(all, contributionFromProto(p))
	}
	return all
}

func personToProto(p fleet.Person) *runnerv1.Person {
	return &runnerv1.Person{Name: toValidUTF8(p.Name), Email: toValidUTF8(p.Email)}
}

func personFromProto(p *runnerv1.Person) fleet.Person {
	return fleet.Person{Name: p.GetName(), Email: p.GetEmail()}
}

func combinationToProto(c fleet.Combination) *runnerv1.Combination {
	return &runnerv1.Combination{
		Work: contributionToProto(c.Contribution), Onto: c.Onto, Strategy: string(c.Strategy), Message: toValidUTF8(c.Message),
		Author: personToProto(c.Author), Landed: personToProto(c.Committer), At: timeToProto(c.At),
	}
}

func combinationFromProto(p *runnerv1.Combination) fleet.Combination {
	return fleet.Combination{
		Contribution: contributionFromProto(p.GetWork()), Onto: p.GetOnto(), Strategy: fleet.Strategy(p.GetStrategy()), Message: p.GetMessage(),
		Author: personFromProto(p.GetAuthor()), Committer: personFromProto(p.GetLanded()), At: timeFromProto(p.GetAt()),
	}
}

func combineResultToProto(c fleet.CombineResult) *runnerv1.Combined {
	p := &runnerv1.Combined{Commit: c.Commit, Base: c.Base}
	for _, conflict := range c.Conflicts {
		p.Conflicts = append(p.Conflicts, &runnerv1.Conflict{Path: toValidUTF8(conflict.Path), Kind: toValidUTF8(conflict.Kind), Hunks: toValidUTF8(conflict.Hunks)})
	}
	return p
}

func combineResultFromProto(p *runnerv1.Combined) fleet.CombineResult {
	c := fleet.CombineResult{Commit: truncate(p.GetCommit()), Base: truncate(p.GetBase())}
	for _, conflict := range p.GetConflicts()[:min(len(p.GetConflicts()), fleet.MaxConflicts)] {
		c.Conflicts = append(c.Conflicts, fleet.Conflict{Path: truncate(conflict.GetPath()), Kind: truncate(conflict.GetKind()), Hunks: truncate(conflict.GetHunks())})
	}
	return c
}

func overlapsToProto(all []fleet.WorkOverlap) *runnerv1.Overlaps {
	list := &runnerv1.Overlaps{}
	for _, o := range all {
		p := &runnerv1.WorkOverlap{A: o.A, B: o.B, Conflict: o.Conflict}
		for _, f := range o.Files {
			file := &runnerv1.OverlapFile{Path: toValidUTF8(f.Path)}
			for _, place := range f.Lines {
				file.Lines = append(file.Lines, int32(place[0]), int32(place[1]))
			}
			p.Files = append(p.Files, file)
		}
		list.Pairs = append(list.Pairs, p)
	}
	return list
}

func overlapsFromProto(list *runnerv1.Overlaps) (all []fleet.WorkOverlap) {
	for _, p := range list.GetPairs()[:min(len(list.GetPairs()), maxOverlaps)] {
		o := fleet.WorkOverlap{A: truncate(p.GetA()), B: truncate(p.GetB()), Conflict: p.GetConflict()}
		for _, f := range p.GetFiles()[:min(len(p.GetFiles()), maxOverlapFiles)] {
			file := fleet.OverlapFile{Path: truncate(f.GetPath())}
			lines := f.GetLines()[:min(len(f.GetLines()), maxOverlapLines)]
			for i := 0; i+1 < len(lines); i += 2 {
				file.Lines = append(file.Lines, [2]int{int(lines[i]), int(lines[i+1])})
			}
			o.Files = append(o.Files, file)
		}
		all = append(all, o)
	}
	return all
}
