"""Cues by which a local guard reads a text: short tables for English and nine other languages.

Each line of a table is a regular expression over a text as ``words.plain`` returns it; a line that is indented goes on
with the one above it. Accents may be written: they are taken off as those of the text are.
"""
# ruff: noqa: RUF001  # letters of other scripts are meant

import re
import textwrap
from collections.abc import Mapping

from memcore.conversation.words import plain
from memcore.embedding.languages import LONE_LETTERS
from memcore.ledger.conversation.turns import Control

_LONE = re.compile(f"[{LONE_LETTERS}]")

#: Parts of expressions, by the name that stands for them.
_PARTS = {
    # Where a request may begin: at the start, after a mark, or after a word that asks.
    "open": r"""(?:^|[.,:;!?()"¡¿。、،؛؟…–—-] ?|\b<polite>,? )""",
    # There, or after a word that goes on with a sentence.
    "loose": r"(?:<open>|\b(?:and|but|so|also|then|und|aber|et|mais|pero|ma|mas|но) )",
    # There, or as a request in so many words. English has one form for "and forget it" and "to forget it".
    "asked": r"""(?:<open>|\b(?:can|could|would|will) you (?:please )?|\b(?:want|need|like) you to (?:please )?
        |\byou (?:should|must|can|may|have to) (?:please )?|\blet(?:'s| us) (?:just )?)""",
    "whose": "(?:my |our |the |mon |ma |mes |le |la |mi |mis |el )?",
    "polite": """(?:please|pls|kindly|just|now|bitte|s'il te plaît|s'il vous plaît|por favor|per favore|пожалуйста
        |من فضلك|رجاء|لطفا)""",
    # Words of the same sentence.
    "gap": r"[^.;!?。]{0,30}?",
    "words": r"[^.;!?。]{0,60}?",
    "keep": r"(?:save|store|keep|record|remember|memori[sz]e|note|log|retain|write down|archive)",
    "keeping": r"(?:saving|storing|keeping|recording|remembering|memori[sz]ing|noting|logging)",
    "this": r"""(?:(?:this|that|it|these|those)(?! (?:file|document|draft|image|photo|picture|page|tab|version|place
        |day)s?\b)|any of|anything|everything|what i|my|our|the (?:last|conversation|chat|part|things?))\b""",
}

_PART = re.compile(f"<({'|'.join(_PARTS)})>")


def cue(table: str) -> re.Pattern[str]:
    """Compile the expressions of a table into one that is searched for in plain text."""
    return re.compile("|".join(f"(?:{each})" for each in _expressions(table)))


def phrases(table: str) -> re.Pattern[str]:
    """Compile a table of phrases; each stands by itself where its language puts spaces between words."""
    every = (each if _LONE.match(each) else rf"(?<!\w)(?:{each})(?!\w)" for each in _expressions(table))
    return re.compile("|".join(every))


def _expressions(table: str) -> list[str]:
    whole = re.sub(r"\n +", "", textwrap.dedent(table).strip())
    return [plain(_with_parts(line)) for line in whole.splitlines()]


def _with_parts(text: str) -> str:
    return _PART.sub(lambda found: _with_parts(re.sub(r"\n +", "", _PARTS[found[1]])), text)


#: By what a person asks something of the memory itself, the furthest request first.
MEMORY_CONTROL: Mapping[Control, re.Pattern[str]] = {
    Control.INCOGNITO: cue(
        r"""
    (?:<asked>|<loose>|\bcan we |\bi(?: want|'d like) to )(?:go|switch|turn on|enter|start|use|activate|enable|be
        |stay)(?: (?:on|over|to|in|into|an?|the))*(?: incognito| private mode| guest mode| off the record)
    <loose>(?:do not|don't|dont|never) <keep> <gap>(?:from (?:now|here) on|anymore|any more)
    \bfrom (?:now|here) on,? (?:please )?(?:do not|don't|dont|never) <keep> <this>
    <asked>stop <keeping> (?:<this>|things)
    <loose>(?:geh|wechs[e]?l|schalt|aktivier|start|nutz)(?:e|n|en)?(?: sie)?\b<gap>(?:inkognito|privatmodus
        |privaten modus)
    \bab (?:jetzt|sofort|nun|hier)\b<gap>\bnichts? (?:mehr )?(?:davon )?(?:speichern|merken|aufzeichnen|notieren)
    <loose>(?:speicher|merk|notier)\w*(?: sie| dir)* ab (?:jetzt|sofort|nun) nichts
    <loose>(?:passe|active|mets-toi|mettez-vous|va|allez|entre|bascule)[zr]?\b<gap>(?:incognito|mode privé|mode prive
        |navigation privée)
    \b(?:à partir de maintenant|désormais)\b<gap>\b(?:n'|ne )(?:enregistre|retiens|retene|garde|note
        |mémorise)z? (?:plus )?rien
    <loose>(?:activ|pon|ponte|pong|entr|pas|cambi)(?:a|e|ate)?\b<gap>(?:incógnito|modo privado)
    \bno (?:guard|registr|grab|record|recuerd|almacen)e[sn]? (?:más )?nada (?:más )?a partir de ahora
        |\ba partir de ahora,? no (?:guard|registr|grab|recuerd|almacen)e[sn]? nada
    <loose>(?:vai|vada|passa|passi|attiva|attivi|entra|entri)\b<gap>(?:incognito|modalità privata|modalità anonima)
    <loose>(?:entra|entre|ativa|ative|muda|mude|passa|passe|vai|vá)\b<gap>(?:anônimo|incógnit[oa]|modo privado)
    <loose>(?:перейди|включи|переключись|войди)(?:те)?\b<gap>(?:инкогнито|приватн)
    больше ничего не (?:сохраняй|запоминай|записывай)
    <loose>(?:انتقل|ادخل|فعل|شغل|استخدم)ي?\b<gap>(?:التخفي|المتخفي)
    (?:シークレット|プライベート|匿名|インコグニト)モード(?:に|へ|で)(?:して|切り替えて|切替えて|移行して|入って|お願い)
    (?:これから|今から|今後|ここから)は?.{0,10}(?:記録|保存|記憶)しないで
    (?:^|[。!?,、]|请|請)[^。!?,、怎如]{0,10}(?:切换到|切換到|进入|進入|开启|開啟|打开|使用|启用)(?:无痕|無痕|隐身|隱身|匿名|私密|隐私)
    从现在(?:开始|起).{0,6}(?:不要|别)(?:再)?(?:保存|记录|记住)
    """
    ),
    Control.FORGET: cue(
        r"""
    <asked>forget,? (?:about )?(?:that|this|these|what|everything|all|anything|my|me|our|i (?:ever )?(?:said|told
        |mentioned)|the (?:last|previous|whole|conversation|part|things? (?:i|we)))\b
    \b(?:please|you to) forget it\b
    <open>pretend (?:that )?i (?:never|didn't|did not) (?:say|said|tell|told|mention)
    <asked>(?:delete|erase|remove|clear|wipe|purge)\b<words>\b(?:you (?:know|remember|have (?:saved|stored|kept
        |noted))|your memory|about me|i(?:'ve| have)? (?:just )?(?:said|told)|from memory|my (?:personal )?(?:data
        |information))\b
    <open>(?:vergiss|vergesst|vergessen sie)(?: bitte)?,? (?:das|dies|was|dass|alles|mein|unser)
    \b(?:kannst|könntest|können|könnten) (?:du|sie) (?:bitte )?(?:das|dies|was|alles)\b<words>(?<!nicht )\bvergessen\b
    <open>l(?:ö|oe)sch(?:e|en sie)?\b<words>(?:(?:ü|ue)ber mich|von mir|weisst|wissen|ged(?:ä|ae)chtnis|gesagt
        |gespeichert|meine daten)
    <open>oublie[zs]?,? (?:ça|cela|ce que|ce qu'|tout|mon|ma|mes|que|qu')\b
    \b(?:(?:peux|pourrais)-tu|(?:pouvez|pourriez)-vous|tu peux|vous pouvez) oublier (?:ça|cela|ce que|ce qu'|tout|mon|ma
        |mes)\b
    <open>(?:efface|supprime)[zs]?\b<words>(?:\bsais|\bsavez|sur moi|de moi|mémoire|j'ai dit|mes données)
    <open>(?:(?:puedes|podrías|puede) olvidar|quiero que olvides?|olvid[ae](?:lo|te)?(?: de)?),? (?:eso|esto|todo
        |lo que|mis?|que)\b
    <open>(?:borr|elimin|suprim)[ae]\b<words>(?:\bsabes?\b|(?:de|sobre) mí\b|memoria|te dije|he dicho|mis datos)
    <open>(?:dimentic|scord)(?:a|hi|ati|ate)(?: di)?,? (?:quello|quanto|ciò|questo|tutto|che|il mio|la mia|i miei
        |le mie)\b
    <open>(?:puoi|potresti|può|potrebbe) (?:dimenticare|scordare) (?:quello|quanto|ciò|questo|tutto|il mio|la mia)\b
    <open>(?:cancell|elimin)(?:a|i|ate)\b<words>(?:(?:sai|sa|sapete) di me|su di me|memoria|ho detto|i miei dati)
    <open>(?:esqueça|esquece|esqueçam)(?:-se)?(?: d?e)? (?:d?isso|d?isto|o que|tudo|que|meus?|minhas?)\b
    <open>(?:podes?|poderia|podia)(?: por favor)? esquecer (?:isso|isto|o que|tudo|meus?|minhas?)\b
    <open>(?:apagu?|delet|exclu|remov)[aei]\b<words>(?:\bsabes?\b|(?:sobre|de) mim\b|memória|eu disse|meus dados)
    <open>забудь(?:те)?(?: об?| про)?,? (?:это|то|что|все|мо[йюеия]|моем)
    <open>(?:можешь|можете|мог бы|могли бы)(?: ты| вы)?(?: пожалуйста)? забыть (?:это|то|что|все|об этом)
    <open>(?:удали|сотри)(?:те)?\b<words>(?:знаешь|знаете|обо мне|памят|сказал|мои данные)
    <open>انس(?:ي|وا)? (?:ما|هذا|هذه|ذلك|كل ما|انني|اني|عنواني|اسمي)\b
    (?:هل )?(?:يمكنك|ممكن|ارجو) (?:نسيان|ان تنسي?) (?:ما|هذا|هذه|ذلك|كل)
    <open>(?:احذف|امسح|ازل)ي?\b<words>(?:تعرف|عني|ذاكرتك|قلته|بياناتي)
    忘れて(?:ください|下さい|くれ|ほしい|欲しい|もらえ|いい|ね|よ| ?$|[。!])
    (?:知っている|知ってる|覚えている|覚えてる|言った|話した)こと.{0,6}(?:消して|削除して)
        |(?:私の(?:データ|情報)|記憶)を?.{0,6}(?:消して|削除して)
    (?:^|[。!?,、;] ?|请|請|帮我|幫我|把.{0,12}|就|能不能|能|可以)(?:忘记|忘記|忘掉|忘了)
        (?:这|這|那|我|它|关于|關於|所有|一切|刚|剛|$)
    (?:删除|刪除|清除|抹掉).{0,12}(?:知道的|记住的|記住的|关于我|關於我|你的记忆|你的記憶|我说的|我說的|我的(?:数据|信息|資料))
    """
    ),
    Control.NOT_THIS: cue(
        r"""
    <loose>(?:do not|don't|dont|never|no need to|you (?:must|should|may|can) ?not|you (?:mustn't|shouldn't
        |can't)) (?:ever )?<keep> <this>
    <loose>(?:do not|don't|dont|never) (?:keep|make|take) (?:a |any )?(?:record|note|log|cop)(?:s|y|ies)? of <this>
    <loose>(?:do not|don't|dont|never) (?:put|add) <this> <gap>memory\b
    \b(?:(?:can|could|would|will) you (?:please )?not|you (?:don't|do not) (?:need|have) to
        |make sure (?:that )?you (?:don't|do not)) <keep> <this>
    <open>keep no (?:record|note|log|cop)(?:s|y|ies)? of\b
    \b(?:this|that|it|none of (?:this|that))\b<gap>(?:\bnot|n't|\bnever) (?:need to |have to |to )?(?:be )?(?:saved
        |stored|recorded|remembered|kept|logged)
    \bkeep (?:this|that|it|everything) off the record\b
    \b(?:rather|prefer|wish) (?:that )?you (?:didn't|did not|don't|do not|not) <keep>\b
    \b(?:don't|do not|dont) want <gap>\b(?:to <keep> <this>|(?:saved|stored|recorded|remembered))
    \bwithout <keeping> (?:this|that|it|anything|any of)\b
    \b(?:stays?|keep (?:this|that|it)) (?:strictly )?between (?:us|you and me)\b
    \b(?:this|that|it|everything|what i say)(?:'s| is| stays) (?:all |strictly )?off the record|^off the record\b
        |[.!?] off the record\b
    <loose>(?:speicher[en]?|speichern sie|merke? dir|merken sie sich|behalte?|notiere?|notieren sie|zeichne
        |erinnere? dich)\b[^.,;!?]{0,40}\bnichts?\b
    <open>(?:das|dies|es|davon)(?: bitte| hier| alles)* nichts? (?:speichern|merken|aufzeichnen|notieren|behalten)
    \bbitte (?:\w+ ){0,2}nichts? (?:speichern|merken|aufzeichnen|notieren)\b
    \b(?:das|dies|davon) (?:musst|brauchst|sollst|müssen|brauchen|sollen) (?:du|sie)\b<gap>\bnichts? (?:zu )?(?:merken
        |speichern|notieren|behalten)
    \bnicht, dass (?:du|sie)\b<gap>(?:merkst|merken|speicherst|speichern|beh(?:ä|ae)ltst|behalten|notierst)
    \b(?:soll|sollte|darf)\b<gap>\bnicht (?:gespeichert|gemerkt|aufgezeichnet|notiert|behalten)
    \b(?:will|möchte) nicht, dass (?:das|dies|es|davon)\b<gap>\b(?:gespeichert|gemerkt|aufgezeichnet|notiert|behalten)
    \b(?:bleibt|bleibe|behalte?)\b[^.;!?]{0,10} unter uns\b
    <loose>(?:n'|ne (?:l[ea]s? )?)(?:enregistre|retien|retene|garde|sauvegarde|note|mémorise|stocke
        |conserve)[rsz]? (?:pas|rien|jamais)\b
    \bne (?:veux|souhaite|voudrais) pas que (?:tu|vous) (?:te |vous )?(?:garde|enregistre|retien|mémoris|not|sauvegard
        |stock|conserv|souven|souvien)
    \b(?:(?:peux|pourrais)-tu|(?:pouvez|pourriez)-vous) ne (?:pas|rien) (?:enregistrer|garder|mémoriser|noter|retenir)\b
    \bpréf(?:ère|érerais) que (?:tu|vous) (?:ne |n')(?:gard|enregistr|retien|reten|mémoris|not|sauvegard)\w+ (?:pas
        |rien)\b
    \bsans (?:l'|le |les )?(?:enregistrer|garder|mémoriser|sauvegarder)\b|\b(?:reste|garde[rz]?)(?:-le)?(?: ça
        | cela)? entre nous\b
    <loose>no (?:(?:lo|la|te) )?(?:guard|recuerd|registr|grab|almacen|memoric|anot|apunt
        |acuerd)e[sn]?(?: de)?,? (?:esto|eso|nada|lo que|mis?|esta|este|la conversación|ningun[oa]?)\b
    <loose>no l[oa] (?:guard|recuerd|registr|grab|almacen|memoric|anot|apunt)e[sn]?\b
    \bno quiero que (?:lo |la |te )?(?:guard|recuerd|registr|grab|almacen|memoric|anot|acuerd)e[sn]?\b
    \bprefer(?:iría|o) que no (?:lo )?(?:guard|record|recuerd|registr|grab|anot)\w+
    \bqued[ae] entre (?:nosotros|tú y yo)\b|\bsin (?:guardar|grabar|recordar)(?:lo|la| esto| nada)\b
    <loose>non (?:lo |la )?(?:salvar|salvi|ricordar|ricordi|memorizzar|memorizzi|registrar|registri|conservar|conservi
        |annotar|annoti)(?:e|ti|lo|la|telo)? ?(?:quest[oa]|quello|ciò|niente|nulla|di questo|i miei|le mie|il mio
        |la mia|$|[.!,])
    <loose>non (?:tenere|prendere) (?:traccia|nota) di (?:quest[oa]|quello|ciò|niente|nulla)
    \bnon voglio che (?:tu |lei )?(?:lo )?(?:salvi|memorizzi|ricordi|registri|conservi|annoti)\b|\b(?:resti|resta
        |rimanga|rimane) (?:tra|fra) (?:di )?noi\b
    <loose>não (?:[oa] |se |te )?(?:guarde|salve|grave|registre|armazene|memorize|anote|lembre)[sm]?(?:-se)? (?:isso
        |isto|nada|disso|disto|o que|ess[ae]|est[ae]|meus?|minhas?|nenhum)
    \bnão quero que (?:você |tu |[oa] senhora? )?(?:se )?(?:guarde|salve|grave|registre|armazene|memorize|anote
        |lembre)s?\b|\b(?:fica|fique) (?:só )?entre nós\b
    <loose>не (?:надо |нужно )?(?:сохраняй|запоминай|записывай|храни)(?:те|ть)?,? (?:это|то|что|ничего|мо[йюеи]|наш
        |об этом|разговор|пожалуйста)
    <loose>не (?:надо|нужно) (?:это )?(?:сохранять|запоминать|записывать)
    \bне хо(?:чу|тел|тела)(?: бы)?,? чтобы (?:ты|вы)\b<gap>(?:запоминал|сохранял|записывал|помнил|запомнил|сохранил
        |записал)
    \bоста(?:нется|ётся) между нами\b
    <loose>لا (?:تحفظ|تتذكر|تسجل|تخزن|تدون|تحتفظ)(?:ي|وا)? (?:ب?هذا|هذه|ذلك|ما|اي|شيء|شيئا|كلامي|بياناتي|المحادثة
        |محادثتنا)
    لا (?:اريد|ارغب)(?: منك)? ان (?:تحفظ|تتذكر|تسجل|تخزن|تدون)|\b(?:يبق[يى]|هذا) بيننا\b
    (?:保存|記録|記憶|メモ)は?(?:しないで(?!しょ|す|終|閉)|しなくて(?:も)?(?:いい|大丈夫|結構)|しちゃだめ|するな|しないように)
    覚え(?:ないで(?!しょ|す)|ておかないで|なくて(?:も)?(?:いい|大丈夫|結構))|記録に残さないで|ここだけの話|オフレコ(?:で|に|だ)
    (?:不要|别|別|不用|不必|请勿|請勿|不准)再?(?:保存|储存|儲存|存储|记住|記住|记录|記錄|记下|記下|记得|記得|留存)(?!文件|文档|图片|檔案)
    (?:不要|别|別)(?:把|将|將).{1,8}(?:存|记|記|保存|记录|記錄)
    不(?:想|希望)(?:让|要|讓)?你(?:保存|储存|记住|記住|记录|記錄|记得)|我们之间的秘密|我們之間的秘密
    """
    ),
}

#: By what a person asks that all be forgotten, whatever it is about.
EVERYTHING = cue(
    r"""
    \b(?:everything|all|anything|what(?:ever)?)(?: that)? you (?:know|remember|have (?:saved|stored|kept))\b
    \b(?:alles, )?was (?:du|sie) (?:über|ueber|von) m(?:ich|ir) (?:weisst|wissen|gespeichert)
    \bce que (?:tu sais|vous savez) (?:de|sur) moi\b
    \blo que sabes? (?:de|sobre) mí\b
    \b(?:quello|ciò) che (?:sai|sa) (?:di|su di) me\b
    \bo que (?:você )?sabes? (?:sobre|de) mim\b
    \bчто (?:ты знаешь|вы знаете) обо мне\b
    ما تعرف(?:ه|ين|ينه)? عني
    私について(?:知っている|知ってる|覚えている|覚えてる)こと
    你(?:所)?知道的.{0,2}(?:关于我|關於我)|关于我的(?:一切|所有)|關於我的(?:一切|所有)
    """
)


#: What says that something holds for this turn or this day alone.
TURN_SCOPED = phrases(
    r"""
    today|tonight|this (?:morning|afternoon|evening|time)|right now|just now|at the moment|for (?:the moment|now|once)
        |(?:just|only) (?:this )?once|temporarily|(?:in|for|to) this (?:answer|reply|message|chat|conversation|session
        |question|task|one|case)|(?:in|for) (?:the|your) next (?:answer|reply|message)
    heute|heute abend|gerade|im moment|im augenblick|momentan|diesmal|dieses mal|ausnahmsweise|nur (?:dieses|ein)mal
        |(?:in|für) dieser? (?:antwort|nachricht|frage|sitzung)|vorübergehend|fürs erste
    aujourd'hui|ce (?:soir|matin)|cette fois|en ce moment|à l'instant|pour (?:l'instant|le moment|une fois)
        |juste une fois
        |(?:dans
        |pour) cette (?:réponse|question|conversation)|temporairement
    hoy|esta (?:noche|mañana|tarde|vez)|ahora mismo|en este momento|por (?:ahora|el momento)|(?:solo
        |sólo) (?:por )?(?:esta|una) vez|(?:en|para) esta (?:respuesta|pregunta|conversación)|temporalmente
    oggi|stasera|stamattina|questa volta|stavolta|in questo momento|proprio (?:ora|adesso)|per (?:ora|adesso|il momento)
        |solo (?:per )?(?:questa|una) volta|(?:in|per) questa (?:risposta|domanda|conversazione)|temporaneamente
    hoje|esta (?:noite|manhã|tarde|vez)|desta vez|agora mesmo|neste momento|no momento|por (?:agora|enquanto)
        |só (?:desta|uma) vez|(?:nesta|para esta) (?:resposta|pergunta|conversa)|temporariamente
    сегодня|(?:прямо|именно|вот) сейчас|сию минуту|в (?:данный|этот) момент|на этот раз|в этот раз
        |(?:только|лишь) (?:один|в этот) раз
        |в этом (?:ответе|разговоре|сообщении)|пока что|временно
    اليوم|الليلة|هذا (?:الصباح|المساء)|هذه المرة|(?:هذه المرة|مرة واحدة) فقط|في هذه اللحظة
        |الان (?:فقط|بالذات|تحديدا)|في الوقت الحالي|حاليا|مؤقتا
        |في هذا (?:الرد|الجواب)
    今日|今夜|今晩|今朝|今回(?:だけ|は)|今だけ|一度だけ|とりあえず|たった今|ちょうど今|今ちょうど|今まさに|まさに今|ただ今|只今|今のところ|この(?:返事|回答|質問|会話)
    今天|今晚|今早|这次|這次|这一次|就这一次|这一回|此刻|目前|(?:现在|現在)正|暂时|暫時|这个(?:回答|问题|对话)|這個(?:回答|問題|對話)
    """
)

#: What says that something holds beyond this turn.
DURABLE = phrases(
    r"""
    always|never|every|each|usually|generally|normally|typically|often|whenever|from (?:now|here) on|in (?:general
        |future|the future)|since|for (?:\w+ )?(?:years|months|weeks)|all my life|long[- ]term|permanently
    immer|nie|niemals|jeden|jede|jedes|jedesmal|meistens|gewöhnlich|normalerweise|generell|grundsätzlich|oft
        |ab (?:jetzt|sofort)|in zukunft|künftig|zukünftig|seit|dauerhaft
    toujours|jamais|chaque|tous les|toutes les|d'habitude|généralement|en général|souvent|désormais
        |à partir de maintenant|à l'avenir|depuis
    siempre|nunca|jamás|cada|todos los|todas las|normalmente|generalmente|en general|a menudo|a partir de ahora
        |de ahora en adelante|en el futuro|desde
    sempre|mai|ogni|tutti i|tutte le|di solito|normalmente|in genere|spesso|d'ora in poi|da ora in poi|in futuro
        |da (?:anni|mesi)
    nunca|cada|todo dia|todos os|todas as|geralmente|normalmente|em geral|muitas vezes|de agora em diante
        |a partir de agora|no futuro|desde|há anos
    всегда|никогда|кажд\w+|обычно|как правило|часто|впредь|в будущем|отныне|с этого момента|с детства|(?:много
        |уже) лет|годами
    دائما|ابدا|كل|عادة|غالبا|من الان فصاعدا|منذ|في المستقبل
    いつも|毎日|毎回|毎週|毎年|普段|これからは|今後|ずっと|必ず|常に|以前から|昔から
    总是|總是|一直|每天|每次|每周|每年|每当|从来|從來|平时|平時|通常|以后|以後|从现在起|从现在开始|永远|永遠|经常|經常|长期|長期
    """
)

#: What says that a sentence speaks of what is not so.
SUPPOSED = phrases(
    r"""
    ^\W*(?:suppose|supposing|imagine|assume|assuming|pretend|let's (?:say|pretend|assume)|what if)
    (?:if|as though) (?:i|we|my|our)\b.*\b(?:would|could|might|\w+'d)
    (?:would|could|might|i'd|we'd)\b.*\bif (?:i|we|my|our) (?:had|were|was|could|won|lived|ever)
    ^\W*(?:(?:mal )?angenommen|stell dir vor|stellen sie sich vor|was wäre|gesetzt den fall)
    (?:wenn|falls) (?:ich|wir|mein\w*|unser\w*)\b.*\b(?:würden?|wären?|hätten?|könnten?)
    (?:würden?|wären?|hätten?|könnten?)\b.*\b(?:wenn|falls) (?:ich|wir)
    ^\W*(?:imagine[zr]?|imaginons|suppos(?:e|ez|ons)|admettons|et si)
    si (?:j'(?:étais|avais)|je (?:pouvais|gagnais|vivais|devenais)|on (?:avait|était)|nous (?:avions|étions))
    ^\W*(?:imagina|imagínate|supongamos|supón|suponga|¿?y si)
    si (?:yo |nosotros )?(?:tuviera|fuera|pudiera|ganara|viviera|tuviese|fuese)(?:mos)?
    ^\W*(?:immagina|immaginiamo|supponiamo|supponi|mettiamo che|e se)
    se (?:io |noi )?(?:avess|foss|potess|vincess|vivess)(?:i|imo)
    ^\W*(?:imagine|imagina|suponha|suponhamos|vamos supor|e se)
    se (?:eu |a gente |nós )?(?:tivesse|fosse|pudesse|ganhasse|vivesse|morasse)
    если бы|^\W*(?:представь(?:те)?|допустим|предположим)
    ^\W*(?:تخيل|افترض|لنفترض)|لو (?:كنت|كان عندي|كان لدي)
    もし.*(?:たら|なら|れば)|仮に|と仮定
    假如|假设|假設|要是我|如果我是|想象一下
    """
)

#: What says that others say something; what they say follows, in Japanese it stands before.
REPORTED = phrases(
    r"""
    (?<!\bi )(?<!\bwe )(?<!\byou )(?:says?|said|claims?|claimed|insists?|insisted|thinks?|believes?)(?: that)?
    according to <whose>\w+
    (?<!\bich )(?:sagte?|behauptete?t?|meinte?|sagt|meint)(?:,? dass)?|laut (?:mein|dein|sein|ihr|unser|de)\w* \w+
    (?<!\b[jt]'ai )(?<!\bavons )(?:dit|disent|prétend|prétendent|affirme|affirment)(?<!j'affirme)(?: qu(?:e\b|'))?
        |(?:selon|d'après) <whose>\w+
    (?:dice|dicen|dijo|dijeron|afirma|afirman)(?: que)?|según <whose>\w+
    (?<!\bho )(?<!\babbiamo )(?:dice|dicono|detto|sostiene|sostengono|afferma|affermano)(?: ch(?:e\b|'))?
        |secondo (?:il mio|la mia|il|la|lui|lei)\b \w*
    (?<!\beu )(?:diz|dizem|disse|disseram|alega|afirma)(?: que)?|segundo (?:o|a|meu|minha)\b \w+
    (?<!\bя )(?:говорит|говорят|сказал|сказала|сказали|утверждает|утверждают)(?:,? что)?|по словам \w+
    (?:يقول|تقول|يقولون|قال|قالت|قالوا|يزعم|تزعم|يدعي|تدعي)(?: (?:ان|بان))?
    と(?:言|い)(?:って(?:い|る|た)|われ)\w*|によると
    声称|聲稱|据说|據說|(?<![我们們小听聽解传傳])[说說](?=[我他她这這那])
    """
)

#: What says that somebody is bad or worth nothing.
NEGATIVE = phrases(
    r"""
    worthless|useless|hopeless|stupid|an idiot|dumb|a failure|a loser|a burden|ugly|broken|unlovable|pathetic
        |not good enough|never (?:be )?good enough|good for nothing|hate myself|nobody (?:likes|loves|needs) me
        |no one (?:likes|loves|needs) me|can't do anything(?: right)?|a bad (?:person|mother|father|parent|friend)
    wertlos|nutzlos|hoffnungslos|dumm|ein idiot|ein versager|eine versagerin|eine last|hässlich|nicht gut genug
        |nie gut genug|zu nichts (?:gut|nütze)|hasse mich|niemand (?:mag|liebt|braucht) mich|nichts wert|kann nichts
    nulle?|inutile|bon(?:ne)? à rien|stupide|idiote?|un fardeau|moche|laide?|pas assez bien|un échec|un raté|une ratée
        |me déteste|personne ne m'aime|ne vaux rien
    inútil|un fracaso|fracasad[oa]|estúpid[oa]|tont[oa]|una carga|fe[oa]|no (?:soy|valgo) (?:suficiente|nada)|me odio
        |nadie me (?:quiere|ama)|un desastre
    un fallimento|un fallit[oa]|stupid[oa]|un peso|brutt[oa]|non abbastanza|non valgo (?:niente|nulla)|mi odio
        |nessuno mi (?:ama|vuole)|buon[oa] a nulla
    um fracasso|fracassad[oa]|burr[oa]|um fardo|um peso|fei[oa]|não (?:sou|presto) (?:suficiente|nada|para nada)
        |me odeio|ninguém (?:me ama|gosta de mim)
    никчемн\w+|ничтожеств\w+|бесполезн\w+|безнадежн\w+|туп\w+|идиот\w*|неудачни\w+|обуз\w+|уродлив\w+
        |недостаточно хорош\w*|ненавижу себя|никому не нуж\w+|меня никто не любит
    فاشلة?|غبية?|عديمة? (?:القيمة|الفائدة)|عبء|قبيحة?|اكره نفسي|لا احد يحبني|لست (?:جيدا|جيدة) بما يكفي|لا قيمة لي
    価値(?:が|の|は)?ない|役立たず|役に立たない|ダメな?人間|だめな?人間|ダメなやつ|失敗作|バカ|馬鹿|負け犬|醜い|自分が嫌い|自分が大嫌い|誰にも愛され
    没用|沒用|废物|廢物|失败者|失敗者|一无是处|一無是處|愚蠢|笨蛋|很笨|累赘|累贅|丑陋|不够好|不夠好|讨厌自己|討厭自己|恨自己|没人爱我|沒人愛我|没有价值|沒有價值
    """
)

#: What says that somebody speaks of who they are.
FRAMING = phrases(
    r"""
    i'm|im|i am|i was|i feel|i felt|feel like|feeling|i (?:think|believe|know) i|i (?:will|always|never|can't)|myself
        |makes? me|nobody|no one
    ich bin|bin ich|ich war|ich kann|fühle? mich|ich (?:fühle|komme) mi(?:ch|r)|mich|niemand
    je suis|je me (?:sens|trouve)|me sens|je ne|suis-je|me déteste|personne
    soy|estoy|me (?:siento|veo|odio)|no valgo|nadie
    sono|mi (?:sento|vedo|odio)|non valgo|nessuno
    sou|estou|me (?:sinto|vejo|odeio)|sinto-me|não presto|ninguém
    я|мне|меня|себя|никому
    انا|اني|انني|نفسي|لست|لي|يحبني|اشعر
    私|わたし|僕|俺|自分
    我|自己
    """
)

#: What leaves out, and what is left out, where a request would have an agent drop what keeps people safe.
SKIP = cue(
    r"""
    \b(?:skip|ignore|bypass|disable|omit|drop|leave out|turn off|switch off|remove|stop (?:doing|giving|showing|making
        |the|with)|no more|(?:do not|don't|dont|never) (?:do|give|show|make|mention|run|add|include|bother with
        |suggest))\b
    \b(?:(?:ü|ue)berspring\w*|ignorier\w*|umgeh\w*|deaktivier\w*|verzicht\w*|lass\w* <gap>\b(?:weg|aus)\b
        |schalt\w* <gap>\b(?:ab|aus)\b|(?:weg|aus)lassen|kein\w* <gap>\bmehr\b)
    \b(?:saute|ignore|contourne|désactive|omet|supprime|passe|laisse tomber)\w*\b
    \b(?:omit[ea]\w*|salta\w*|ignor[ea]\w*|desactiv\w*|elimin[ea]\w*|quit[ea]\w*)\b
    \b(?:salta\w*|ignora\w*|disattiv\w*|ometti\w*|elimina\w*|evita\w*|disabilit\w*)\b
    \b(?:pul[ea]\w*|ignor[ea]\w*|desativ\w*|omit[ea]\w*|remov[ea]\w*)\b
    \b(?:пропус[тк]\w*|игнорир\w*|отключ\w*|обойди\w*|убери\w*|не делай|не показывай)(?:те)?\b
    (?:تجاوز|تخط|تجاهل|عطل|اوقف|الغ)\w*
    省(?:いて|略)|スキップ|飛ばして|無視して|無効に|なしで|オフに|やめて
    跳过|跳過|忽略|绕过|繞過|关闭|關閉|省略|不要(?:做|给|显示|再)|取消
    """
)
SAFETY = cue(
    r"""
    \b(?:safety|security) (?:check|step|warning|rule|question|plan|note|notice|filter|protocol|disclaimer)s?\b
        |\bguard ?rails?\b|\bdisclaimers?\b|\b(?:crisis|emergency|suicide) (?:check|hotline|number|line|resource
        |question|protocol)s?\b|\bhotlines?\b|\b(?:medical|health) warnings?\b|\bsafety\b
    \bsicherheits\w+|\bwarnhinweis\w*|\bkrisen\w+|\bnotruf\w*|\bnotfall\w+
    \b(?:vérification|contrôle|avertissement|consigne|règle|question)s? de sécurité\b|\bmises? en garde\b
        |\bnuméros? d'urgence\b
    \b(?:verificaci\w+|comprobaci\w+|control\w*|advertencia\w*|avisos?|reglas?|preguntas?) de seguridad\b|\b(?:línea
        |teléfono|número) de (?:crisis|emergencia)\b
    \b(?:controll\w+|verific\w+|avvis\w+|avvertenz\w+|regol\w+|domand\w+) di sicurezza\b|\bnumer\w+ di emergenza\b
    \b(?:verificaç\w+|checage\w*|aviso\w*|alerta\w*|regra\w*|pergunta\w*) de segurança\b|\bnúmeros? de emergência\b
    \bпроверк\w+ безопасности|\bбезопасност\w*|\bпредупрежден\w*|\bэкстренн\w+|\bтелефон\w* доверия
    (?:فحص|فحوصات|تحذير|تحذيرات|قواعد|اجراءات) (?:السلامة|الامان)|رقم الطوارئ
    安全(?:確認|チェック|警告|ルール|対策)|注意書き|免責|緊急(?:連絡先|ダイヤル)|相談窓口
    安全(?:检查|檢查|警告|提示|规则|規則|确认|確認|措施)|免责声明|免責聲明|危机热线|危機熱線|紧急电话|緊急電話
    """
)

#: What turns a request to leave something out into its opposite, in front of it and behind it.
NOT_BEFORE = cue(
    r"""
    \b(?:do not|don't|dont|not|not to|never|nicht|nie|ne|no|nunca|non|mai|não|не|никогда не) (?:ever |jamais |lo |la
        |te )?$
    \bn'$|لا \w?$|(?:絶対に|不要|别|別|不能|勿)$
    """
)
NOT_BEHIND = cue(
    r"""
    ^ ?(?:nie|niemals|nicht|never|mai|pas|jamais)\b|\b(?:nicht|nie)$
    ^(?:し)?(?:ない|ては|てはいけ|ちゃ)
    """
)

#: What says something of a person, rather than what an agent shall do.
FACT_SHAPED = cue(
    r"""
    ^(?:the |this )?(?:user|person|customer|client)(?:'s \w+)* (?:is|was|has|had|lives?|works?|likes?|loves?|hates?
        |owns?|prefers?|wants?|feels?|worries|takes?|suffers?|enjoys?|studies|plays?|speaks?)\b
    ^(?:i|i'm|i've|my \w+)(?: am| is| was| have| has| live| work| like| love| hate| own| feel| worry| take| enjoy
        | study| play| speak)\b|^i'm\b
    ^(?:der|die) (?:nutzer|benutzer|anwender|person|kunde)(?:in)? (?:ist|war|hat|wohnt|lebt|arbeitet|mag|liebt|hasst
        |besitzt)\b
    ^ich (?:bin|war|habe|wohne|lebe|arbeite|mag|liebe|hasse)\b|^meine? \w+ (?:ist|war|hat)\b
    ^(?:l'utilisateur|l'utilisatrice|la personne) (?:est|a|vit|habite|travaille|aime|déteste)\b|^(?:je suis|j'ai
        |j'habite|je vis|je travaille|j'aime)\b
    ^(?:el|la) (?:usuari[oa]|persona|cliente) (?:es|está|tiene|vive|trabaja|ama|odia)\b|^(?:soy|tengo|vivo|trabajo
        |estoy)\b
    ^(?:l'utente|la persona) (?:è|ha|vive|abita|lavora|ama|odia)\b|^(?:sono|ho|vivo|abito|lavoro)\b
    ^[oa] (?:usuári[oa]|utilizador|utilizadora|pessoa|cliente) (?:é|está|tem|vive|mora|trabalha|ama|odeia)\b
        |^(?:eu )?(?:sou|tenho|moro|trabalho)\b
    ^пользовател\w+ (?:живёт|работает|имеет|любит|ненавидит|болеет|страдает|является)\b|^я (?:живу|работаю|люблю
        |ненавижу)\b|^у (?:меня|пользователя)\b
    ^المستخدمة? (?:يعيش|تعيش|يعمل|تعمل|لديه|لديها|يحب|تحب|يكره)|^(?:انا|لدي|اعيش|اعمل)\b
    ^(?:ユーザー|私|わたし|僕|俺)(?:は|が|の)
    ^(?:用户|用戶|我)(?:是|有|住|在|喜欢|喜歡|爱|愛|讨厌|討厭|的)
    """
)

#: What says that something is about how an agent answers.
AGENT_FACING = cue(
    r"""
    \b(?:answer\w*|repl(?:y|ies)|responses?|respond|tone|explain\w*|explanations?|format\w*|bullet\w*
        |lists?|emojis?|sentences|summar\w+|examples?|jargon|style|formal\w*|informal\w*|messages?|address(?:ed)?
        |be called|call (?:me|them|the)|remind\w*|suggest\w*|advice|questions|your?|write|written|wording
        |concise\w*|brief\w*|brevity|short\w*|direct\w*|detail\w*|polite\w*|humou?r|honest\w*|agent|assistant|language
        |me to|in (?:english|german|french|spanish))\b
    \b(?:antwort\w*|erkl(?:ä|ae)r\w*|stichpunkt\w*|beispiel\w*|ton|anrede|duz\w*|siez\w*|nachricht\w*|formulier\w*
        |schreib\w*|du|stil)\b
    \b(?:répon\w+|expli\w+|ton|exemple\w*|tutoy\w+|vouvoy\w+|message\w*|liste\w*|style)\b
    \b(?:respuest\w+|respond\w+|explic\w+|tono|ejemplo\w*|tute\w+|mensaje\w*|lista\w*|estilo)\b
    \b(?:rispost\w+|rispond\w+|spieg\w+|tono|esemp\w+|messagg\w+|elenc\w+|stile)\b
    \b(?:respost\w+|respond\w+|explic\w+|tom|exemplo\w*|mensage\w+|lista\w*|estilo)\b
    \b(?:ответ\w*|отвеч\w+|объясн\w+|тон\w*|пример\w*|сообщени\w+|стил\w+|спис\w+|обращ\w+)\b
    (?:اجاب|الاجاب|جواب|الرد|الردود|شرح|اسلوب|امثلة|رسائل)
    返事|回答|返信|答え|説明|口調|敬語|例|箇条書き|文体
    回答|回复|回覆|答复|解释|解釋|语气|語氣|例子|列表|风格|風格|称呼|稱呼
    """
)

#: A password, or a number that opens something, as people say it; each ends with its first character.
PASSWORD = cue(
    r"""
    \b(?:password|passphrase|passcode|pin(?: code| number)?|cvv|cvc|api key|access token|private key
        |seed phrase)(?: \w+){0,3} (?:is|was) (?!too|so|not|very|long|safe|strong|weak|secure|lost|stolen|changed)\w
    \b(?:passwort|kennwort|pin|geheimzahl)(?: \w+){0,3} (?:ist|lautet|war) (?!zu|so|nicht|sehr)\w
    \b(?:mot de passe|code pin|code secret)(?: \w+){0,3} (?:est|c'est) (?!trop|pas)\w
    \b(?:contraseña|clave|pin)(?: \w+){0,3} (?:es|era) (?!muy|demasiado|no)\w
    \b(?:password|parola d'ordine|pin)(?: \w+){0,3} (?:è|era) (?!troppo|molto|non)\w
    \b(?:senha|palavra-passe|pin)(?: \w+){0,3} (?:é|era) (?!muito|não)\w
    \b(?:пароль|пин-?код|пин)(?: (?!слишком|очень|не)\w+){0,3}(?: ?[-:–—] ?| это )\w|\bпароль (?:\w+ )?(?=\w*\d)\w
    كلمة (?:المرور|السر)(?: \w+){0,3} (?=\w*\d)\w|كلمة (?:المرور|السر)(?: \w+){0,2} هي \w
    (?:パスワード|暗証番号|暗証コード)は ?[a-z0-9]
    (?:密码|密碼|口令|验证码|驗證碼)(?:是|为|為|:) ?[a-z0-9]
    """
)
