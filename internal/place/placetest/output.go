package placetest

import (
	"strings"

	"fleet/internal/fleet"
)

func output(x *fixture) {
	a := x.readyAgent()
	if !x.place.Traits().SupportsOutput {
		r := x.completeRun(a)
		_, err := x.place.Connect(a).Output(x.ctx, r, 0, 100)
		x.allowUnimplemented(err)
		return
	}
	readPage := func(r fleet.Run, offset int64, limit int) fleet.OutputPage {
		x.Helper()
		p, err := x.place.Connect(a).Output(x.ctx, r, offset, limit)
		x.NoError(err)
		x.LessOrEqual(len(p.Data), limit)
		x.Zero(p.GapSize)
		return p
	}
	readAll := func(r fleet.Run) string {
		x.Helper()
		p := readPage(r, 0, 1<<20)
		x.Zero(p.Offset)
		x.Len(p.Data, int(p.Size))
		return string(p.Data)
	}

	// The output can be read while the run is active.
	r, f := x.startWorking(a, x.harness.Prompts.Works)
	before := readAll(r)
	x.Contains(before, x.harness.Prompts.Works.Lines[0])
	x.interruptRun(a, r, f)
	after := readAll(r)
	x.True(strings.HasPrefix(after, before))

	// The output can be read in pages after the end of the run.
	r = x.dispatch(a, x.harness.Prompts.Says)
	x.requireCompleted(a, r, x.harness.Prompts.Says)
	all := readAll(r)
	for _, line := range x.harness.Prompts.Says.Lines {
		x.Contains(all, line)
	}
	size := int64(len(all))
	x.Greater(size, int64(4))
	x.Equal(fleet.OutputPage{Data: []byte(all[1:4]), Offset: 1, Size: size}, readPage(r, 1, 3))
	x.Equal(fleet.OutputPage{Data: []byte(all[size-3:]), Offset: size - 3, Size: size}, readPage(r, -3, 100))
	x.Equal(fleet.OutputPage{Data: []byte(all[size-3 : size-1]), Offset: size - 3, Size: size}, readPage(r, -3, 2))
	x.Equal(all, string(readPage(r, -size-5, 1<<20).Data))
	x.Equal(all, string(readPage(r, 0, 1<<30).Data), "a limit beyond the size of the output")
	for _, beyond := range []int64{size, size + 5} {
		p := readPage(r, beyond, 10)
		x.Empty(p.Data)
		x.Equal(size, p.Offset)
	}
	var pages strings.Builder
	for at := int64(0); at < size; {
		p := readPage(r, at, 5)
		x.NotEmpty(p.Data)
		pages.Write(p.Data)
		at = p.Offset + int64(len(p.Data))
	}
	x.Equal(all, pages.String())

	_, err := x.place.Connect(a).Output(x.ctx, x.newRun(x.harness.Prompts.Says), 0, 10)
	x.requireReason(err, fleet.ReasonTaskNotFound)
	x.delete(a)
	_, err = x.place.Connect(a).Output(x.ctx, r, 0, 10)
	x.requireReason(err, fleet.ReasonTaskNotFound, fleet.ReasonOutputNotFound, fleet.ReasonAgentOffline)
}
