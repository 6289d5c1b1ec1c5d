package placetest

import (
	"fleet/internal/fleet"
)

func changes(x *fixture) {
	p := x.harness.Prompts.Changes
	x.Equal(p.Text != "", x.place.Traits().SupportsChanges)
	if p.Text == "" {
		a := x.readyAgent()
		r := x.completeRun(a)
		_, err := x.place.Connect(a).Changes(x.ctx, r)
		x.allowUnimplemented(err)
		return
	}
	a := x.readyAgentIn(x.harness.Repository)
	r := x.dispatch(a, p)
	x.requireCompleted(a, r, Prompt{})
	c, err := x.place.Connect(a).Changes(x.ctx, r)
	x.NoError(err)
	x.NotNil(c)
	x.NotEmpty(c.Base)
	x.NotEmpty(c.Ref)
	x.NotEqual(c.Base, c.Commit)
	x.Equal(1, c.FileCount)
	x.Len(c.FileChanges, 1)
	x.Equal(p.Summary, c.FileChanges[0].Path)
	x.Empty(c.Problem)
	secondChanges, err := x.place.Connect(a).Changes(x.ctx, r)
	x.NoError(err)
	x.Equal(c.FileChanges, secondChanges.FileChanges)

	compared, err := x.place.Connect(a).Compare(x.ctx, c.Base, c.Commit)
	x.NoError(err)
	x.Equal(c.FileChanges, compared.FileChanges)
	x.Equal([]int{c.FileCount, c.Insertions, c.Deletions}, []int{compared.FileCount, compared.Insertions, compared.Deletions})

	requirePatch := func(path string) {
		x.Helper()
		whole, more, err := x.place.Connect(a).Patch(x.ctx, *c, path, 0, 1<<20)
		x.NoError(err)
		x.False(more)
		for _, line := range p.Lines {
			x.Contains(string(whole), line)
		}
		first, more, err := x.place.Connect(a).Patch(x.ctx, *c, path, 0, 5)
		x.NoError(err)
		x.True(more)
		rest, more, err := x.place.Connect(a).Patch(x.ctx, *c, path, 5, len(whole)-5)
		x.NoError(err)
		x.False(more)
		x.Equal(string(whole), string(first)+string(rest))
	}
	requirePatch("")
	requirePatch(p.Summary)
	none, more, err := x.place.Connect(a).Patch(x.ctx, *c, "no/such/file", 0, 100)
	x.NoError(err)
	x.Empty(none)
	x.False(more)

	// The next run starts from the state at the end of the first run.
	second := x.completeRun(a)
	c2, err := x.place.Connect(a).Changes(x.ctx, second)
	x.NoError(err)
	x.True(c2 == nil || c2.FileCount == 0, "a run that changed nothing must have no changes, has %+v", c2)
	requirePatch("")

	undispatched, err := x.place.Connect(a).Changes(x.ctx, x.newRun(x.harness.Prompts.Says))
	x.True(err != nil || undispatched == nil, "Changes of a run that was never dispatched must fail or return nil, returns %+v", undispatched)

	x.delete(a)
	if x.place.Traits().KeepsWork {
		requirePatch("")
		return
	}
	if _, _, err = x.place.Connect(a).Patch(x.ctx, *c, "", 0, 1<<20); err != nil {
		x.requireReason(err, fleet.ReasonChangesNotFound)
	}
}
