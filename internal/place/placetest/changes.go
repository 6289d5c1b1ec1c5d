package placetest

import (
	"fleet/internal/fleet"
)

func changes(x *fixture) {
	p := x.h.Prompts.Changes
	x.Equal(p.Text != "", x.b.Traits().Changes)
	if p.Text == "" {
		a := x.ready()
		r := x.dispatch(a, x.h.Prompts.Says)
		x.completes(a, r, x.h.Prompts.Says)
		_, err := x.b.Connect(a).Changes(x.ctx, r)
		x.optional(err)
		return
	}
	a := x.readyIn(x.h.Repository)
	r := x.dispatch(a, p)
	_, o := x.whole(a, r)
	x.Equal(fleet.TaskCompleted, o.Status, "outcome: %+v", o)
	c, err := x.b.Connect(a).Changes(x.ctx, r)
	x.NoError(err)
	x.NotNil(c)
	x.NotEmpty(c.Base)
	x.NotEmpty(c.Ref)
	x.NotEqual(c.Base, c.Commit)
	x.Equal(1, c.Files)
	x.Len(c.List, 1)
	x.Equal(p.Summary, c.List[0].Path)
	x.Empty(c.Problem)
	again, err := x.b.Connect(a).Changes(x.ctx, r)
	x.NoError(err)
	x.Equal(c.List, again.List)

	compared, err := x.b.Connect(a).Compare(x.ctx, c.Base, c.Commit)
	x.NoError(err)
	x.Equal(c.List, compared.List)
	x.Equal([]int{c.Files, c.Insertions, c.Deletions}, []int{compared.Files, compared.Insertions, compared.Deletions})

	patch := func(path string) {
		x.Helper()
		whole, more, err := x.b.Connect(a).Patch(x.ctx, *c, path, 0, 1<<20)
		x.NoError(err)
		x.False(more)
		for _, line := range p.Lines {
			x.Contains(string(whole), line)
		}
		first, more, err := x.b.Connect(a).Patch(x.ctx, *c, path, 0, 5)
		x.NoError(err)
		x.True(more)
		rest, more, err := x.b.Connect(a).Patch(x.ctx, *c, path, 5, len(whole)-5)
		x.NoError(err)
		x.False(more)
		x.Equal(string(whole), string(first)+string(rest))
	}
	patch("")
	patch(p.Summary)
	none, more, err := x.b.Connect(a).Patch(x.ctx, *c, "no/such/file", 0, 100)
	x.NoError(err)
	x.Empty(none)
	x.False(more)

	// The next run starts from the state at the end of the first run.
	second := x.dispatch(a, x.h.Prompts.Says)
	x.completes(a, second, x.h.Prompts.Says)
	c2, err := x.b.Connect(a).Changes(x.ctx, second)
	x.NoError(err)
	x.True(c2 == nil || c2.Files == 0, "a run that changed nothing must have no changes, has %+v", c2)
	patch("")

	never, err := x.b.Connect(a).Changes(x.ctx, x.run(x.h.Prompts.Says))
	x.True(err != nil || never == nil, "Changes of a run that was never dispatched must fail or return nil, returns %+v", never)

	_, err = x.b.Delete(x.ctx, a)
	x.NoError(err)
	if x.b.Traits().KeepsWork {
		patch("")
		return
	}
	if _, _, err = x.b.Connect(a).Patch(x.ctx, *c, "", 0, 1<<20); err != nil {
		x.reason(err, fleet.ReasonChangesNotFound)
	}
}
