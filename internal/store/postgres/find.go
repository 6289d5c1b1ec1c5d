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

	tasksNumbered = `SELECT id, ` + record.TaskColumns + `, payload_removed, revision, NULL::text FROM tasks WHERE n = ANY($1)` + newestFirst
)

// A text is looked for among the newest tasks at first. If some have it, but not enough, then it is looked for among so many that enough
// should have it, unless it takes less time to find all tasks that have it.
const (
	fewNewest  = 5_000
	manyNewest = 4 * fewNewest
	mostNewest = 12 * fewNewest // for a long text
)

// longText is the number of characters from which on a text has so many pieces in the index that finding all tasks with it takes long.
const longText = 9

// textSearch finds the tasks of a filter with a text. The database knows only roughly how frequent a text is, so it may choose badly
// between the order of lists and the index of texts. Reading the newest tasks first tells which is better: if few of them have the text,
// then usually few of all tasks do, and the index finds all of these quickly.
type textSearch struct {
	*readTx
	filter fleet.TaskFilter
	long   bool
	most   int // how many tasks are counted

	counted bool // total is the number of tasks that match, or at least most
	total   int  // how many match at least
}

func (t *readTx) findText(f fleet.TaskFilter, w fleet.TaskWindow) (fleet.FoundTasks, error) {
	if _, err := first(t, scanString, planEach); err != nil {
		return fleet.FoundTasks{}, err
	}
	s := &textSearch{readTx: t, filter: f, long: utf8.RuneCountInString(f.Text) >= longText, most: max(0, w.Count) + 1}
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

// numbers returns the numbers of the tasks that match behind the position, or from the first one on if it is nil.
func (s *textSearch) numbers(behind *position, limit, offset int) ([]int64, error) {
	need, most := offset+limit, offset+limit
	if behind == nil {
		most = max(most, s.most)
	}
	ns, whole, err := s.among(fewNewest, behind, most)
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
	limit := manyNewest
	if s.long { // it is not counted exactly
		limit, most = mostNewest, need
	}
	for _, wanted := range []int{most, need} {
		if n > 0 && n < wanted && fewNewest*wanted/n*3/2 <= limit {
			return fewNewest * wanted / n * 3 / 2
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
		_, _, err = s.among(fewNewest, nil, most)
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
