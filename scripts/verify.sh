#!/bin/sh
# Verify a segment of the trail with printf and sha256sum alone (forge-record(5)):
# verify.sh audit-000001.jsonl [SHA of the line before]
prev=${2:-$(printf %064d 0)} n=0
while IFS= read -r line; do
	n=$((n + 1)) payload=${line#'{"payload":'} rest=${line##*',"prev":"'}
	payload=${payload%',"prev":"'*} sha=${rest#*'","sha":"'}
	sum=$(printf %s%s "$payload" "${rest%%'"'*}" | sha256sum)
	if [ "${rest%%'"'*}" != "$prev" ] || [ "${sum%% *}\"}" != "$sha" ]; then echo "$1:$n: does not verify" && exit 1; fi
	prev=${sha%'"}'}
done <"$1"
echo "$n lines, head $prev"
