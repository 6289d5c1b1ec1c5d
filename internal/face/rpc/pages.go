package rpc

import "fleet/internal/fleet"

// pageIn returns a request for a page of a list. The caller gives either the number of the page or the cursor before it.
func pageIn(page, size *int32, cursor string, limit *int32) fleet.PageRequest {
	return fleet.PageRequest{Page: intIn(page), PageSize: intIn(size), Cursor: cursor, Limit: intIn(limit)}
}

// cursorPageIn returns a request for the items of a list after the cursor.
func cursorPageIn(cursor string, limit *int32) fleet.PageRequest {
	return fleet.PageRequest{Cursor: cursor, Limit: intIn(limit)}
}

// portionIn returns the requested part of a text, such as a payload or a patch.
func portionIn(offset, limit, tail *int32) *fleet.PortionRequest {
	return &fleet.PortionRequest{Offset: intIn(offset), Limit: intIn(limit), Tail: intIn(tail)}
}
