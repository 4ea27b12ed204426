"""Everything that is numbered in the five papers, and where it is here; one file for each paper."""

from reproductions.contents.dp_hflow import DP_HFLOW
from reproductions.contents.dp_lflow import DP_LFLOW
from reproductions.contents.dp_nf import DP_NF
from reproductions.contents.dp_nf_vi import DP_NF_VI
from reproductions.contents.entry import KINDS as KINDS
from reproductions.contents.entry import Entry as Entry
from reproductions.contents.entry import Number as Number
from reproductions.contents.entry import Paper as Paper
from reproductions.contents.expm_nf import EXPM_NF

PAPERS = (DP_NF, DP_HFLOW, DP_LFLOW, EXPM_NF, DP_NF_VI)
