package postgres

import (
	"unicode/utf8"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	// planEach makes the rest of the transaction plan each query for its values. How to find a text depends on how frequent it is: a plan
	// for any text reads a whole index for one that is short.
	planEach = `SELECT set_config('plan_cache_mode', 'force_custom_plan', true)`

	tasksNumbered = `SELECT ` + record.ReadColumns + `, NULL::text FROM tasks WHERE n = ANY($1)` + newestFirst
)

// fewNewest is the number of the newest tasks among which a text is looked for at first.
const fewNewest = 5_000

// longText is the number of characters from which on a text has so many pieces in the index that finding all tasks with it takes long.
const longText = 9

// textSearch finds the tasks of a filter with a text. The database knows only roughly how frequent a text is, so it may choose badly
// between the order of lists and the index of texts. Reading the newest tasks first tells which is better: if few of them have the text,
// then usually few of all tasks do, and the index finds all of these quickly.
type textSearch struct {
	*readTx
	filter fleet.TaskFilter
	long   bool
	few    int // how many of the newest tasks are read first
	many   int // how many are read at most if they are likely to be enough; then finding all that have the text takes more time
	most   int // how many tasks are counted

	counted bool // total is the number of tasks that match, or at least most
	total   int  // how many match at least
}

func newTextSearch(t *readTx, f fleet.TaskFilter, most int) *textSearch {
	s := &textSearch{readTx: t, filter: f, long: utf8.RuneCountInString(f.Text) >= longText, few: fewNewest, many: 4 * fewNewest, most: most}
	apart := f.Owner != "" || f.Place != "" || f.Project != "" || len(f.Projects) > 0 || f.Status != "" // few such tasks are on one page of the disk
	switch {
	case s.long:
		s.many *= 3
	case apart:
		s.many = 0
	}
	if apart {
		s.few /= 2
	}
	return s
}

func (t *readTx) findText(f fleet.TaskFilter, w fleet.TaskWindow) (fleet.FoundTasks, error) {
	if _, err := first(t, scanString, planEach); err != nil {
		return fleet.FoundTasks{}, err
	}
	s := newTextSearch(t, f, max(0, w.Count)+1)
	return record.FindTasks(w, func(limit int) ([]*fleet.Task, error) {
		behind, err := t.position(w.After)
		if err != nil {
			return nil, err
		}
		offset := max(0, w.Offset)
		if behind != nil {
			offset = 0
		}
		ns, err := s.numbers(behind, limit, offset)
		if err != nil || len(ns) == 0 {
			return nil, err
		}
		return all(t, record.ScanTask, tasksNumbered, ns)
	}, s.count)
}

// numbers returns the column n of a page of the tasks that match: of those behind the position, or of all if it is nil.
func (s *textSearch) numbers(behind *position, limit, offset int) ([]int64, error) {
	need, most := offset+limit, offset+limit
	if behind == nil {
		most = max(most, s.most)
	}
	ns, whole, err := s.among(s.few, behind, most)
	if read := s.enough(len(ns), need, most); err == nil && !whole && read > 0 {
		ns, whole, err = s.among(read, behind, most)
	}
	if err == nil && !whole && len(ns) < need {
		return s.all(behind, limit, offset)
	}
	return ns[min(offset, len(ns)):min(need, len(ns))], err
}

// enough returns among how many tasks as many as needed, or as are counted at most, should match if n of the newest do. It returns 0 if that
// is not worthwhile.
func (s *textSearch) enough(n, need, most int) int {
	if s.long { // it is not counted exactly
		most = need
	}
	for _, wanted := range []int{most, need} {
		if read := s.few * wanted / max(1, n) * 3 / 2; n > 0 && n < wanted && read <= s.many {
			return read
		}
	}
	return 0
}

// among returns the numbers of the first tasks that match, at most so many, among the newest behind the position. whole says that there
// are no others than those that it has read.
func (s *textSearch) among(read int, behind *position, most int) (ns []int64, whole bool, err error) {
	f := s.filter
	f.Text = ""
	c := taskConditions(f)
	if behind != nil {
		c.behind(*behind)
	}
	tasks := `(SELECT n, created_at, search FROM tasks WHERE ` + c.where + `true` + newestFirst + ` LIMIT ` + c.arg(read) + `) AS newest`
	c.where = ""
	c.text(s.filter.Text)
	found := `(coalesce(array_agg(n` + newestFirst + `) FILTER (WHERE ` + c.where + `true), '{}'))[:` + c.arg(min(most, read)) + `]`
	have := 0
	if err := s.each(func(row scanner) error { return row.Scan(&ns, &have) }, `SELECT `+found+`, count(*) FROM `+tasks, c.args...); err != nil {
		return nil, false, s.failed(err)
	}
	whole = have < read
	if behind == nil {
		s.total = len(ns)
		s.counted = whole || s.total >= s.most
	}
	return ns, whole, nil
}

// all returns the same as numbers, and counts all tasks that match.
func (s *textSearch) all(behind *position, limit, offset int) ([]int64, error) {
	c := taskConditions(s.filter)
	found := `WITH found AS MATERIALIZED (SELECT n, created_at FROM tasks WHERE ` + c.where + `true) SELECT n, (SELECT count(*) FROM found) FROM found WHERE `
	c.where = ""
	if behind != nil {
		c.behind(*behind)
	}
	return all(s.readTx, func(row scanner) (n int64, err error) {
		s.counted = true
		return n, row.Scan(&n, &s.total)
	}, found+c.where+`true`+newestFirst+` LIMIT `+c.arg(limit)+` OFFSET `+c.arg(offset), c.args...)
}

// count counts the tasks that match, at most so many. Those with a long text are counted only among the newest tasks, unless few of these
// have it; more says that there can be more.
func (s *textSearch) count(most int) (n int, more bool, err error) {
	if !s.counted && s.total == 0 && s.long {
		_, _, err = s.among(s.few, nil, most)
	}
	switch {
	case err != nil || s.counted:
		return min(s.total, most), false, err
	case s.long && s.total > 0:
		return s.total, true, nil
	}
	n, err = s.countTasks(s.filter, most)
	return n, false, err
}
