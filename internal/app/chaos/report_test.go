package chaos

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
)

// report is the table at the end of a run: how often each fault and each operation happened, and what the checks compared.
type report struct {
	faults  *faultLog
	fleets  []*fleetUnderLoad
	results []*checkResult // in the order of fleets
}

func (r *report) add(f *fleetUnderLoad, result *checkResult) {
	r.fleets, r.results = append(r.fleets, f), append(r.results, result)
}

func (r *report) String() string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(cells ...any) {
		for i, c := range cells {
			if i == 0 {
				fmt.Fprintf(w, "%-48v", c) // the first column begins at the left
				continue
			}
			fmt.Fprintf(w, "\t%v", c)
		}
		fmt.Fprintln(w, "\t")
	}
	r.faults.report(line)
	for _, f := range r.fleets {
		line("operation on "+f.name, "answered", "refused", "no answer", "")
		for _, method := range slices.Sorted(maps.Keys(f.history.calls)) {
			o := f.history.calls[method]
			line(method, o.answered, o.refused, o.unknown, "")
		}
	}
	for i, f := range r.fleets {
		line("check on "+f.name, "compared", "", "", "")
		for _, c := range r.results[i].checks {
			line(c.what, c.count, "", "", "")
		}
		for _, watcher := range f.watchers {
			line("failed streams of the "+watcher.name+" watcher", watcher.failures, "", "", "")
		}
		line("problems", len(r.results[i].problems), "", "", "")
	}
	_ = w.Flush()
	return b.String()
}
